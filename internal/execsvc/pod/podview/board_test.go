package podview

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func shown(uid types.UID) Pod {
	return Pod{
		UID: uid, Namespace: "default", Name: "web", Source: "file", State: podexecv1.WorkerState_WORKER_STATE_SYNCING, Desired: true,
		Err: errors.New("no"), WaitsFor: "a pull", Retry: t0, Changed: t0, Status: &v1.PodStatus{Phase: v1.PodRunning},
		Object: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, Name: "web"}},
		Pulls:  []*podexecv1.ImagePull{{Image: "img", AskedTime: timestamppb.New(t0)}},
	}
}

// words are changes as "+uid" and "-uid", in order.
func words(changes []Change) []string {
	out := []string{}
	for _, c := range changes {
		sign := "+"
		if c.Removed {
			sign = "-"
		}
		out = append(out, sign+string(c.Pod.UID))
	}
	return out
}

// want checks what changed after a position, and returns where the reader is then.
func want(t *testing.T, b *Board, after Position, resumed bool, want ...string) Position {
	t.Helper()
	changes, now, _, got := b.Since(after)
	if diff := cmp.Diff(append([]string{}, want...), words(changes)); diff != "" || got != resumed {
		t.Errorf("resumed %v, want %v; changes (-want +got):\n%s", got, resumed, diff)
	}
	return now
}

// Only what is shown and differs is a change.
func TestSetReportsChangesOnly(t *testing.T) {
	for name, change := range map[string]func(*Pod){
		"":            func(*Pod) {},
		"same text":   func(p *Pod) { p.Err = errors.New("no") },
		"copies":      func(p *Pod) { p.Status, p.Object = p.Status.DeepCopy(), p.Object.DeepCopy() },
		"other zone":  func(p *Pod) { p.Retry, p.Changed = p.Retry.Local(), p.Changed.Local() },
		"*state":      func(p *Pod) { p.State = podexecv1.WorkerState_WORKER_STATE_TERMINATING },
		"*desired":    func(p *Pod) { p.Desired = false },
		"*error":      func(p *Pod) { p.Err = errors.New("never") },
		"*no error":   func(p *Pod) { p.Err = nil },
		"*waits for":  func(p *Pod) { p.WaitsFor = "a backoff" },
		"*retry":      func(p *Pod) { p.Retry = time.Time{} },
		"*changed":    func(p *Pod) { p.Changed = t0.Add(time.Second) },
		"*status":     func(p *Pod) { p.Status = &v1.PodStatus{Phase: v1.PodFailed} },
		"*no status":  func(p *Pod) { p.Status = nil },
		"*object":     func(p *Pod) { p.Object = &v1.Pod{} },
		"*other pull": func(p *Pod) { p.Pulls = []*podexecv1.ImagePull{{Image: "other"}} },
		"*no pulls":   func(p *Pod) { p.Pulls = nil },
	} {
		b := New()
		b.Set(shown("1"))
		_, at, more, _ := b.Since(Position{})
		p := shown("1")
		change(&p)
		b.Set(p)
		_, now, _, _ := b.Since(at)
		reported := false
		select {
		case <-more:
			reported = true
		default:
		}
		if changed := name != "" && name[0] == '*'; reported != changed || (now != at) != changed {
			t.Errorf("%q: readers are told %v, the position moved %v; want %v", name, reported, now != at, changed)
		}
		if got, _ := b.Get("1"); got.State != p.State || got.WaitsFor != p.WaitsFor || (got.Err == nil) != (p.Err == nil) {
			t.Errorf("%q: shown is %+v", name, got)
		}
	}
}

// A reader may determine by its pointer whether a status is another one.
func TestEqualPartsStayTheSame(t *testing.T) {
	b := New()
	first := shown("1")
	b.Set(first)
	second := shown("1")
	second.WaitsFor = "a backoff"
	b.Set(second)
	if got, _ := b.Get("1"); got.Status != first.Status || got.Object != first.Object || got.WaitsFor != "a backoff" {
		t.Errorf("shown is %+v; want the status and the object of before", got)
	}
}

func TestSince(t *testing.T) {
	b := New()
	want(t, b, Position{}, false)
	b.Set(shown("1"))
	b.Set(shown("2"))
	at := want(t, b, Position{}, false, "+1", "+2")
	want(t, b, at, true)
	b.Remove("3")
	want(t, b, at, true)
	for _, phase := range []v1.PodPhase{v1.PodFailed, v1.PodPending, v1.PodUnknown} {
		p := shown("1")
		p.Status = &v1.PodStatus{Phase: phase}
		b.Set(p)
	}
	b.Remove("2")
	b.Remove("2")
	want(t, b, at, true, "+1", "-2")
	b.Set(shown("2"))
	want(t, b, at, true, "+1", "+2")
	want(t, New(), at, false)
	want(t, b, Position{at.Instance, at.Number + 99}, false, "+1", "+2")
}

// A reader may stop after any change, and go on from there.
func TestEachChangeHasItsPosition(t *testing.T) {
	b := New()
	b.Set(shown("1"))
	_, at, _, _ := b.Since(Position{})
	b.Set(shown("2"))
	b.Remove("1")
	b.Set(shown("3"))
	changes, now, _, _ := b.Since(at)
	if len(changes) != 3 || changes[2].At != now {
		t.Fatalf("changes %v, now %v", changes, now)
	}
	want(t, b, changes[0].At, true, "-1", "+3")
	want(t, b, changes[1].At, true, "+3")
	want(t, b, changes[2].At, true)
}

// To readers who choose pods by source or name, one that moved has gone from where it was.
func TestPodThatMoves(t *testing.T) {
	b := New()
	b.Set(shown("1"))
	_, at, _, _ := b.Since(Position{})
	moved := shown("1")
	moved.Source = "api"
	b.Set(moved)
	changes, _, _, _ := b.Since(at)
	if diff := cmp.Diff([]string{"-1", "+1"}, words(changes)); diff != "" || changes[0].Pod.Source != "file" || changes[1].Pod.Source != "api" {
		t.Fatalf("moved: %v", changes)
	}
	b.Set(shown("1"))
	changes, _, _, _ = b.Since(at)
	if diff := cmp.Diff([]string{"-1", "+1"}, words(changes)); diff != "" || changes[0].Pod.Source != "api" || changes[1].Pod.Source != "file" {
		t.Fatalf("moved back: %v", changes)
	}
	if all := b.All(); len(all) != 1 || all[0].Source != "file" {
		t.Errorf("all pods: %v", all)
	}
}

// Of removals so many are remembered; who was away for longer gets all pods instead.
func TestRemovalsAreBounded(t *testing.T) {
	b := New()
	b.Set(shown("stays"))
	for i := range keptRemovals {
		b.Set(shown(types.UID(fmt.Sprint(i))))
	}
	_, before, _, _ := b.Since(Position{})
	for i := range keptRemovals {
		b.Remove(types.UID(fmt.Sprint(i)))
	}
	changes, _, _, resumed := b.Since(before)
	if len(changes) != keptRemovals || !resumed {
		t.Fatalf("%d changes, resumed %v; want %d removals", len(changes), resumed, keptRemovals)
	}
	if c := changes[0]; !c.Removed || c.Pod.Object != nil || c.Pod.Status != nil {
		t.Errorf("the first is %+v; want a bare reference", c)
	}
	b.Set(shown("one more"))
	b.Remove("one more")
	want(t, b, before, false, "+stays")
	rest, _, _, resumed := b.Since(changes[0].At)
	if len(rest) != keptRemovals || !resumed {
		t.Errorf("after the first removal: %d changes, resumed %v; want the others", len(rest), resumed)
	}
	if n := b.removed.Len(); n != keptRemovals || len(b.tombs) != n {
		t.Errorf("%d removals in the list and %d in its index are kept", n, len(b.tombs))
	}
}

// However often the progress of a pod's pull changes, a reader gets the pod once, and the changes of others are kept.
func TestProgressKeepsChanges(t *testing.T) {
	b := New()
	b.Set(shown("pulling"))
	b.Set(shown("gone"))
	_, at, _, _ := b.Since(Position{})
	b.Remove("gone")
	b.Set(shown("other"))
	for i := range 2 * keptRemovals {
		p := shown("pulling")
		p.Pulls = []*podexecv1.ImagePull{{Image: "img", Progress: &podexecv1.PullProgress{DoneBytes: int64(i)}}}
		b.Set(p)
		b.Set(p) // No progress is no change.
	}
	changes, now, _, resumed := b.Since(at)
	if diff := cmp.Diff([]string{"-gone", "+other", "+pulling"}, words(changes)); diff != "" || !resumed {
		t.Errorf("resumed %t, changes (-want +got):\n%s", resumed, diff)
	}
	if want := at.Number + 2 + 2*keptRemovals; now.Number != want {
		t.Errorf("the position is %d; want %d", now.Number, want)
	}
}
