package upstream_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	"github.com/podstream/podstream/internal/podctl/web/board"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	"github.com/podstream/podstream/internal/podctl/web/upstream"
	"github.com/podstream/podstream/internal/podctl/web/webtest"
	"github.com/podstream/podstream/internal/recording"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// row returns the row of the pod with a UID.
func (f *fixture) row(uid string) *podwebv1.PodRow {
	row, _ := f.board.Pods.Get(board.Key("pod", uid))
	return row
}

// await waits for the row of a pod.
func (f *fixture) await(what, uid string, ok func(*podwebv1.PodRow) bool) *podwebv1.PodRow {
	f.t.Helper()
	changed := make(chan struct{}, 1)
	defer f.board.Pods.Follow(changed)()
	webtest.Await(f.t, what, changed, func() bool { return ok(f.row(uid)) })
	return f.row(uid)
}

// TestBothHalves: a pod has one row, desired beside observed, with the reason for which it waits.
func TestBothHalves(t *testing.T) {
	p, e := webtest.NewPodconfigd(t, 0, "file"), webtest.NewPodexecd(t)
	uid := podctltest.UID("web")
	f := start(t, upstream.Config{Podconfigd: p.Daemon(), Podexecd: e.Daemon()})
	p.Set("file", "a: web(uid="+uid+",image=a,node=n1)")
	row := f.await("the desired pod", uid, func(r *podwebv1.PodRow) bool { return r.GetDesired() && r.GetStatus() == "NotStarted" })
	if row.GetObserved() || row.GetNode() != "n1" || row.GetHealth() != podwebv1.Health_HEALTH_WORKING || len(row.GetWaitReasons()) == 0 {
		t.Errorf("before podexecd has it, its row is %v", row)
	}
	waiting := podctltest.Observed(t, "default", "web", &corev1.PodStatus{
		Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{podctltest.Waiting("main", "ImagePullBackOff", "no such image")},
	})
	waiting.LastError, waiting.WaitsFor = "pull failed", "a pull"
	e.Put(waiting)
	row = f.await("the observed pod", uid, func(r *podwebv1.PodRow) bool { return r.GetObserved() })
	if !row.GetDesired() || row.GetStatus() != "ImagePullBackOff" || row.GetLastError() != "pull failed" || row.GetWaitsFor() != "a pull" ||
		row.GetHealth() != podwebv1.Health_HEALTH_BAD || !strings.Contains(strings.Join(row.GetWaitReasons(), "\n"), "no such image") {
		t.Errorf("while it waits, its row is %v", row)
	}
	e.Put(podctltest.Observed(t, "default", "web", &corev1.PodStatus{
		Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{podctltest.Running("main")},
	}))
	row = f.await("the pod to run", uid, func(r *podwebv1.PodRow) bool { return r.GetStatus() == "Running" })
	if row.GetHealth() != podwebv1.Health_HEALTH_GOOD || len(row.GetWaitReasons()) > 0 || row.GetReady() != "1/1" {
		t.Errorf("when it runs, its row is %v", row)
	}
	p.Set("file", "a:")
	f.await("the pod not to be desired", uid, func(r *podwebv1.PodRow) bool { return !r.GetDesired() && r.GetStatus() == "Orphan" })
	e.Remove(uid)
	f.await("the pod to be gone", uid, func(r *podwebv1.PodRow) bool { return r == nil })
}

// TestPodexecdGoesAway: while podexecd is away the rows stay and the link says why; then it goes on after its token, or, after a
// restart of podexecd, with all pods.
func TestPodexecdGoesAway(t *testing.T) {
	e := webtest.NewPodexecd(t)
	one, two := podctltest.UID("one"), podctltest.UID("two")
	running := &corev1.PodStatus{Phase: corev1.PodRunning}
	e.Put(podctltest.Observed(t, "default", "one", running))
	f := start(t, upstream.Config{Podconfigd: webtest.NewPodconfigd(t, 0, "file").Daemon(), Podexecd: e.Daemon()})
	f.await("the first pod", one, func(r *podwebv1.PodRow) bool { return r.GetObserved() })
	e.Down()
	wantLink(t, f.board.Observed, "BROKEN")
	e.Put(podctltest.Observed(t, "default", "two", running))
	if f.row(one) == nil {
		t.Error("the row is gone while podexecd is away")
	}
	e.Up()
	f.await("the second pod", two, func(r *podwebv1.PodRow) bool { return r.GetObserved() })
	wantLink(t, f.board.Observed, "LIVE")
	if tokens := e.Tokens(); tokens[0] != "" || tokens[len(tokens)-1] != "0.1" {
		t.Errorf("the streams began after %q; want the last one to go on", tokens)
	}
	e.Down()
	e.Restart()
	e.Remove(one)
	e.Up()
	f.await("the first pod to be gone", one, func(r *podwebv1.PodRow) bool { return r == nil })
}

// TestEvents: an event that happens again replaces its row, and the last ones are kept.
func TestEvents(t *testing.T) {
	e := webtest.NewPodexecd(t)
	event := func(name string, count int32) *podexecv1.PodEvent {
		return &podexecv1.PodEvent{
			Ref: &podconfigv1.PodRef{Uid: "u", Namespace: "default", Name: "web"}, Type: "Warning", Reason: name, Message: "m", Count: count,
			LastTime: timestamppb.New(podctltest.Noon.Add(time.Duration(count) * time.Second)),
		}
	}
	f := start(t, upstream.Config{Podconfigd: webtest.NewPodconfigd(t, 0, "file").Daemon(), Podexecd: e.Daemon()})
	e.Event(event("BackOff", 1))
	e.Event(event("Killing", 1))
	e.Event(event("BackOff", 2))
	changed := make(chan struct{}, 1)
	defer f.board.Events.Follow(changed)()
	counts := func() []string {
		var out []string
		for _, row := range f.board.Events.Rows() {
			out = append(out, row.GetReason()+itoa(int(row.GetCount())))
		}
		slices.Sort(out)
		return out
	}
	webtest.Await(t, "the events", changed, func() bool { return slices.Equal(counts(), []string{"BackOff2", "Killing1"}) })
	e.Down()
	wantLink(t, f.board.EventsLink, "BROKEN")
	e.Up()
	wantLink(t, f.board.EventsLink, "LIVE")
	for i := range 2100 {
		e.Event(event("Reason"+itoa(i), 1))
	}
	last := board.EventRow(event("Reason2099", 1)).GetKey()
	webtest.Await(t, "the last event", changed, func() bool {
		_, ok := f.board.Events.Get(last)
		return ok
	})
	if n := f.board.Events.Len(); n != 2000 {
		t.Errorf("%d events are kept; want 2000", n)
	}
}

// TestPolls: lists are asked for once, and then only while a tab needs them.
func TestPolls(t *testing.T) {
	p, asked := webtest.NewPodconfigd(t, 0, "file", "api"), make(chan struct{}, 1000)
	stats := func() error {
		asked <- struct{}{}
		return nil
	}
	f := start(t, upstream.Config{
		Podconfigd: p.Daemon(), Podexecd: webtest.NewPodexecd(t).Daemon(), Poll: time.Millisecond,
		Stats: fakeStats(stats),
	})
	wantLink(t, f.board.SourcesLink, "LIVE")
	if n := f.board.Sources.Len(); n != 2 {
		t.Errorf("there are %d sources; want 2", n)
	}
	<-asked // The one at the start.
	done := f.board.Want.Add(board.WantSources)
	p.Set("file", "a: one(image=a)")
	key := board.Key("source", "file")
	changed := make(chan struct{}, 1)
	defer f.board.Sources.Follow(changed)()
	webtest.Await(t, "the source's pod", changed, func() bool {
		row, _ := f.board.Sources.Get(key)
		return row.GetPods() == 1 && row.GetReady()
	})
	done()
	if len(asked) > 0 {
		t.Error("the stats were asked for, although no tab needs them")
	}
}

// TestNotAsked: what isn't asked says why.
func TestNotAsked(t *testing.T) {
	f := start(t, upstream.Config{Podconfigd: webtest.NewPodconfigd(t, 0, "file").Daemon(), NoPodexecd: "it is a gateway"})
	for _, link := range []*board.Link{f.board.Observed, f.board.EventsLink, f.board.StatsLink} {
		if text := wantLink(t, link, "ENDED"); text != "it is a gateway" {
			t.Errorf("the link says %q", text)
		}
	}
	if _, _, err := f.upstream.OpenLog(upstream.LogName{UID: "u"}, 10); !errors.Is(err, upstream.ErrNoLogs) {
		t.Errorf("a log is opened: %v", err)
	}
}

// TestRecording: a recording is shown whole, with its times and its begin and end.
func TestRecording(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stream.jsonl")
	began := podctltest.Noon
	w, err := recording.Create(recording.FileConfig{Path: path, Header: recording.Header{Recorded: began}})
	if err != nil {
		t.Fatal(err)
	}
	write := func(after time.Duration, op podconfigv1.PodOperation, revision uint64, pods ...*podconfigv1.Pod) {
		t.Helper()
		m := &podconfigv1.WatchPodUpdatesResponse{
			Event:  &podconfigv1.WatchPodUpdatesResponse_Update{Update: &podconfigv1.PodUpdate{Op: op, Source: "file", Pods: pods, SourceReady: true}},
			Cursor: &podconfigv1.Cursor{InstanceId: "i", Revision: revision},
		}
		if revision > 7 {
			m.GetUpdate().ObservedTime = timestamppb.New(began.Add(after - time.Second))
		}
		if err := w.Write(after, m); err != nil {
			t.Fatal(err)
		}
	}
	one, two := podctltest.Ref("file", "default", "one"), podctltest.Desired(t, "file", podctltest.Pod("default", "two"))
	write(0, podconfigv1.PodOperation_POD_OPERATION_ADD, 7, one)
	err = w.Write(time.Second, &podconfigv1.WatchPodUpdatesResponse{
		Event: &podconfigv1.WatchPodUpdatesResponse_Synced{Synced: &podconfigv1.Synced{
			Sources: []*podconfigv1.SourceReadiness{{Name: "file", Ready: true}},
		}},
		Cursor: &podconfigv1.Cursor{InstanceId: "i", Revision: 7},
	})
	if err != nil {
		t.Fatal(err)
	}
	write(time.Minute, podconfigv1.PodOperation_POD_OPERATION_ADD, 8, two)
	write(time.Hour, podconfigv1.PodOperation_POD_OPERATION_REMOVE, 9, one)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	f := start(t, upstream.Config{Recording: path})
	if text := wantLink(t, f.board.Desired, "ENDED"); text != "the recording ends at 2026-03-01T13:00:01Z" {
		t.Errorf("the link says %q", text)
	}
	f.wantEntries("7 INITIAL ADD file: one", "8 ADD file: two", "9 REMOVE file: one")
	begin, _ := f.board.Timeline.Begin.Get()
	if begin.GetReason() != "the recording begins here" || !begin.GetTime().AsTime().Equal(began.Add(time.Second)) {
		t.Errorf("it begins with %v", begin)
	}
	if got := names(f.board, 2); got != "one two" {
		t.Errorf("after the second entry there are %q", got)
	}
	if text := wantLink(t, f.board.SourcesLink, "ENDED"); !strings.Contains(text, "recording") {
		t.Errorf("the sources' link says %q", text)
	}
}

// TestBadRecordings: a file that is cut off is shown as far as it goes, and one that is no recording isn't.
func TestBadRecordings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(path, []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text := wantLink(t, start(t, upstream.Config{Recording: path}).board.Desired, "ENDED"); !strings.Contains(text, "not the header of a recording") {
		t.Errorf("the link says %q", text)
	}
	if text := wantLink(t, start(t, upstream.Config{Recording: path + "y"}).board.Desired, "ENDED"); !strings.Contains(text, "no such file") {
		t.Errorf("the link says %q", text)
	}
}
