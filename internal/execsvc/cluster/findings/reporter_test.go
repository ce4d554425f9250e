package findings

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/decide/nodestatus"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	warning  = podconfigv1.FindingSeverity_FINDING_SEVERITY_WARNING
	wrong    = podconfigv1.FindingSeverity_FINDING_SEVERITY_ERROR
	conflict = podconfigv1.FindingSeverity_FINDING_SEVERITY_CONFLICT
	ignored  = podconfigv1.FindingSeverity_FINDING_SEVERITY_IGNORED
)

// world is a podconfigd with one source, and a node with one pod, kept. Its Reporter runs in a bubble.
type world struct {
	pods *events.Recorder

	mu       sync.Mutex
	findings []*podconfigv1.Finding
	err      error
	node     []string
}

// run runs a Reporter until the test ends.
func run(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{pods: events.New(events.Config{})}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		r := New(Config{
			Sources: func(context.Context) ([]*podconfigv1.Source, error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				return []*podconfigv1.Source{{Name: "file", Findings: w.findings}}, w.err
			},
			Pod: func(uid types.UID) *v1.Pod {
				if uid != "kept" {
					return nil
				}
				return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, Namespace: "default", Name: "web-n1"}}
			},
			Event: func(e nodestatus.Event) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.node = append(w.node, e.Type+" "+e.Reason+": "+e.Message)
			},
			Events: w.pods,
		})
		go func() { defer close(done); r.Run(ctx) }()
		synctest.Wait()
		test(w)
		cancel()
		<-done
	})
}

// set changes the world between two rounds of the Reporter.
func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// after sets the findings, and returns the new events of the Node after that time.
func (w *world) after(d time.Duration, findings ...*podconfigv1.Finding) []string {
	w.set(func() { w.findings, w.node = findings, nil })
	time.Sleep(d)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.node
}

// ofPod are the events of the kept pod, with their counts.
func (w *world) ofPod() (out []string) {
	all, _, _ := w.pods.After(0)
	for _, e := range all {
		out = append(out, fmt.Sprintf("%d %s/%s %s %s: %s", e.Count, e.Namespace, e.Name, e.Type, e.Reason, e.Message))
	}
	return out
}

const round = 20 * time.Second

// TestRejectedManifest: the Node and the pod that goes on in its last good version have an event, without text of the
// manifest.
func TestRejectedManifest(t *testing.T) {
	run(t, func(w *world) {
		bad := &podconfigv1.Finding{
			Severity: wrong, Origin: "/etc/kubernetes/manifests/web.yaml", Document: 2, Field: "spec.hunter2", Message: `"hunter2" is wrong`,
			KeptPods: []*podconfigv1.PodRef{{Uid: "kept"}, {Uid: "unknown"}},
		}
		more := &podconfigv1.Finding{Severity: wrong, Origin: bad.GetOrigin(), Document: 2, Message: "another problem"}
		const message = "Error validating document 2 of /etc/kubernetes/manifests/web.yaml from file, ignoring: podctl sources on the node shows the reason"
		if diff := cmp.Diff([]string{"Warning FailedValidation: " + message}, w.after(round, bad, more)); diff != "" {
			t.Errorf("the Node's events (-want +got):\n%s", diff)
		}
		want := "1 default/web-n1 Warning FailedValidation: " + message + "; the last good version of this pod stays"
		if diff := cmp.Diff([]string{want}, w.ofPod()); diff != "" {
			t.Errorf("the pod's events (-want +got):\n%s", diff)
		}
		if got := w.after(59*time.Minute, bad, more); got != nil {
			t.Errorf("within an hour, the Node's event is recorded again: %q", got)
		}
		if got := w.after(time.Minute, bad, more); len(got) != 1 {
			t.Errorf("after an hour, the Node's events are %q; want it again", got)
		}
		if got := w.ofPod(); len(got) != 1 || !strings.HasPrefix(got[0], "2 ") {
			t.Errorf("after an hour, the pod's events are %q; want it counted again", got)
		}
	})
}

// TestConflict: the event of a pod whose name is taken says by which one.
func TestConflict(t *testing.T) {
	run(t, func(w *world) {
		got := w.after(round, &podconfigv1.Finding{Severity: conflict, Origin: "/m/b.yaml", Message: "pod default/web-n1 is defined by source file in /m/a.yaml already"})
		want := []string{"Warning FailedValidation: Error validating /m/b.yaml from file, ignoring: pod default/web-n1 is defined by source file in /m/a.yaml already"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the Node's events (-want +got):\n%s", diff)
		}
	})
}

// TestNoFailure: a warning, a file that isn't a manifest, and a podconfigd that is away are no events.
func TestNoFailure(t *testing.T) {
	run(t, func(w *world) {
		if got := w.after(round, &podconfigv1.Finding{Severity: warning, Origin: "/m/a.yaml"}, &podconfigv1.Finding{Severity: ignored, Origin: "/m/a.bak"}); got != nil {
			t.Errorf("the Node's events are %q; want none", got)
		}
		w.set(func() { w.err = errors.New("it is away") })
		if got := w.after(round, &podconfigv1.Finding{Severity: wrong, Origin: "/m/a.yaml"}); got != nil {
			t.Errorf("without an answer the Node's events are %q", got)
		}
		w.set(func() { w.err = nil })
		if got := w.after(round, &podconfigv1.Finding{Severity: wrong, Origin: "/m/a.yaml"}); len(got) != 1 {
			t.Errorf("once it is back the Node's events are %q; want one", got)
		}
	})
}

// TestNodeEventsAreBounded: an author of manifests leaves the Node room for its other events.
func TestNodeEventsAreBounded(t *testing.T) {
	run(t, func(w *world) {
		total := 0
		for i := range 6 * 60 * 3 { // six hours
			total += len(w.after(round, &podconfigv1.Finding{Severity: conflict, Origin: "/m/a.yaml", Message: fmt.Sprint(i)}))
		}
		if most := nodeEvents + 6*int(time.Hour/nodePause); total > most || total < most-1 {
			t.Errorf("there were %d events; want %d", total, most)
		}
		// A finding that got none has it as soon as there is room.
		late := &podconfigv1.Finding{Severity: wrong, Origin: "/m/late.yaml"}
		if got := w.after(nodePause, late); len(got) != 1 {
			t.Errorf("the late one's events are %q; want one", got)
		}
	})
}

// TestAnswersAreBounded: of a huge answer only a part is kept.
func TestAnswersAreBounded(t *testing.T) {
	b := newBook()
	huge := strings.Repeat("x", 1<<20)
	var kept []*podconfigv1.PodRef
	for i := range 100 {
		kept = append(kept, &podconfigv1.PodRef{Uid: fmt.Sprint(i)})
	}
	findings := slices.Collect(func(yield func(*podconfigv1.Finding) bool) {
		for i := range 2 * maxFindings {
			if !yield(&podconfigv1.Finding{Severity: conflict, Origin: fmt.Sprint(i, huge), Message: huge, KeptPods: kept}) {
				return
			}
		}
	})
	out := b.due(time.Unix(1_000_000, 0), []*podconfigv1.Source{{Name: huge, Findings: findings}})
	if len(b.entries) != maxFindings || len(out) != maxFindings+nodeEvents || len(out[0].pods) != maxKept || len(out[0].message) > 4*maxText {
		t.Errorf("%d findings are kept, %d recorded, the first one for %d pods with %d bytes", len(b.entries), len(out), len(out[0].pods), len(out[0].message))
	}
}

// TestSourcesShareTheNode: the authors of one source's manifests, of whom one writes a great many, or others all the
// time, keep no event of another source's finding back, and none of an older finding of their own.
func TestSourcesShareTheNode(t *testing.T) {
	b, now := newBook(), time.Unix(1_000_000, 0)
	// next returns the origins of the Node's events after a pause in which there is room for one more. The flood is new
	// each time.
	rounds := 0
	next := func(quiet ...string) (origins []string) {
		rounds++
		now = now.Add(nodePause)
		flood := &podconfigv1.Source{Name: "flood"}
		for i := range 10_000 {
			flood.Findings = append(flood.Findings, &podconfigv1.Finding{Severity: conflict, Origin: "flood", Message: fmt.Sprint(rounds, i)})
		}
		modest := &podconfigv1.Source{Name: "modest"}
		for _, origin := range quiet {
			at := &flood.Findings
			if strings.HasPrefix(origin, "modest") {
				at = &modest.Findings
			}
			*at = slices.Insert(*at, min(len(*at), 300), &podconfigv1.Finding{Severity: wrong, Origin: origin})
		}
		for _, d := range b.due(now, []*podconfigv1.Source{flood, modest}) {
			if d.node {
				_, rest, _ := strings.Cut(d.message, "validating ")
				origin, _, _ := strings.Cut(rest, " ")
				origins = append(origins, origin)
			}
		}
		return origins
	}
	want := func(want []string, got []string) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the origins of the events (-want +got):\n%s", diff)
		}
	}
	want(slices.Repeat([]string{"flood"}, nodeEvents), next())
	want([]string{"modest-1"}, next("modest-1", "modest-2", "old"))
	// Of the flood's findings, the one that is still there has waited the longest.
	want([]string{"old"}, next("modest-1", "modest-2", "old"))
	want([]string{"modest-2"}, next("modest-1", "modest-2", "old"))
	want([]string{"flood"}, next("modest-1", "modest-2", "old"))
	if len(b.entries) > maxFindings {
		t.Errorf("%d findings are kept", len(b.entries))
	}
}
