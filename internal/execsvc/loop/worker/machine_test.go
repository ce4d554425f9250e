package worker

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// newPod returns a pod with a grace period of 30 s.
func newPod(uid, name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Namespace: "default", Name: name},
		Spec:       v1.PodSpec{TerminationGracePeriodSeconds: ptr.To[int64](30)},
	}
}

// deleted returns the pod with a DeletionTimestamp.
func deleted(pod *v1.Pod, grace int64) *v1.Pod {
	out := pod.DeepCopy()
	out.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	out.DeletionGracePeriodSeconds = &grace
	return out
}

// now is the time of all calls.
var now = time.Unix(1000, 0)

// in returns a machine in that state, with a grace period of 10 s from Terminating on.
func in(s State) *machine {
	m := &machine{state: s, pod: newPod("a", "web")}
	if s > Syncing {
		m.end = NewTermination(now, 10, nil)
	}
	return m
}

// left returns the rest of the grace period, in seconds.
func (m *machine) left() int64 { return m.end.left(now) }

// left returns the rest of the grace period at a time, in seconds, rounded up; at least 1.
func (t Termination) left(at time.Time) int64 {
	return max(int64((t.Deadline.Sub(at)+time.Second-1)/time.Second), 1)
}

func TestMachineEnd(t *testing.T) {
	tests := []struct {
		name      string
		state     State
		grace     int64
		wantState State
		wantGrace int64
	}{
		{"waiting", Waiting, 30, Terminating, 30},
		{"waiting, no grace", Waiting, 0, Terminating, 1},
		{"syncing", Syncing, 30, Terminating, 30},
		{"syncing, no grace", Syncing, 0, Terminating, 1},
		{"syncing, negative grace", Syncing, -5, Terminating, 1},
		{"terminating, shorter", Terminating, 3, Terminating, 3},
		{"terminating, as long", Terminating, 10, Terminating, 10},
		{"terminating, longer", Terminating, 60, Terminating, 10},
		{"terminating, none", Terminating, 0, Terminating, 1},
		{"terminated", Terminated, 1, Terminated, 10},
		{"finished", Finished, 1, Finished, 10},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := in(tt.state)
			m.terminate(NewTermination(now, tt.grace, nil))
			if m.state != tt.wantState || m.left() != tt.wantGrace {
				t.Errorf("%v with %d s; want %v with %d s", m.state, m.left(), tt.wantState, tt.wantGrace)
			}
		})
	}
}

func TestMachineUpdate(t *testing.T) {
	for _, s := range []State{Waiting, Syncing, Terminating, Terminated, Finished} {
		t.Run(s.String(), func(t *testing.T) {
			m := in(s)
			changed := newPod("a", "web")
			m.update(now, changed)
			if m.pod != changed || m.state != s || m.removed || m.next != nil {
				t.Errorf("after an update: %+v; want the new pod, still %v", m, s)
			}

			want := s
			if s <= Syncing {
				want = Terminating
			}
			m.update(now, deleted(changed, 4))
			if m.state != want {
				t.Errorf("after a deletion: %v; want %v", m.state, want)
			}
			if want == Terminating && m.left() != 4 {
				t.Errorf("after a deletion: grace period of %d s; want 4", m.left())
			}
		})
	}
}

// A pod that is added again with the same UID waits until the old one has ended.
func TestMachineUpdateAfterRemove(t *testing.T) {
	for _, s := range []State{Waiting, Syncing, Terminating, Terminated, Finished} {
		t.Run(s.String(), func(t *testing.T) {
			m := in(s)
			old := m.pod
			m.remove(now, 5)
			first, second := newPod("a", "web"), newPod("a", "web")
			m.update(now, first)
			m.update(now, second)
			if m.pod != old || m.next != second || !m.removed {
				t.Fatalf("%+v; want the old pod, the latest version waiting behind it", m)
			}
			next := m.successor(now)
			if next == nil || next.state != Waiting || next.pod != second || next.removed {
				t.Errorf("successor %+v; want the latest version, waiting", next)
			}
			m.remove(now, 5)
			if m.successor(now) != nil {
				t.Error("next although it was removed again")
			}
		})
	}
}

// A pod that is added again with a DeletionTimestamp never starts.
func TestMachineSuccessorIsDeleted(t *testing.T) {
	m := in(Terminating)
	m.remove(now, 5)
	m.update(now, deleted(newPod("a", "web"), 2))
	if r := m.successor(now); r.state != Terminating || r.left() != 2 {
		t.Errorf("successor is %v with %d s; want terminating with 2 s", r.state, r.left())
	}
}

func TestMachineStep(t *testing.T) {
	tests := []struct {
		name      string
		state     State
		removed   bool
		purged    bool
		mayStart  bool
		want      step
		wantState State
	}{
		{name: "waiting, name taken", state: Waiting, want: stepNothing, wantState: Waiting},
		{name: "waiting, name free", state: Waiting, mayStart: true, want: stepSync, wantState: Syncing},
		{name: "syncing", state: Syncing, want: stepSync, wantState: Syncing},
		{name: "terminating", state: Terminating, want: stepTerminate, wantState: Terminating},
		{name: "terminating, removed", state: Terminating, removed: true, want: stepTerminate, wantState: Terminating},
		{name: "terminated", state: Terminated, want: stepCleanUp, wantState: Terminated},
		{name: "terminated, removed", state: Terminated, removed: true, want: stepCleanUp, wantState: Terminated},
		{name: "finished", state: Finished, want: stepNothing, wantState: Finished},
		{name: "finished, name free", state: Finished, mayStart: true, want: stepNothing, wantState: Finished},
		{name: "finished, removed", state: Finished, removed: true, want: stepPurge, wantState: Finished},
		{name: "finished, purged", state: Finished, removed: true, purged: true, want: stepDrop, wantState: Finished},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := in(tt.state)
			m.removed, m.purged = tt.removed, tt.purged
			if got := m.step(tt.mayStart); got != tt.want || m.state != tt.wantState {
				t.Errorf("step %q, then %v; want %q, %v", got, m.state, tt.want, tt.wantState)
			}
		})
	}
}

func TestMachineDone(t *testing.T) {
	tests := []struct {
		name     string
		state    State
		step     step
		terminal bool
		want     State
	}{
		{"sync", Syncing, stepSync, false, Syncing},
		{"sync that ran to its end", Syncing, stepSync, true, Terminating},
		{"sync of a pod that was removed meanwhile", Terminating, stepSync, false, Terminating},
		{"sync to the end of a pod that was removed meanwhile", Terminating, stepSync, true, Terminating},
		{"termination", Terminating, stepTerminate, false, Terminated},
		{"clean-up", Terminated, stepCleanUp, false, Finished},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := in(tt.state)
			m.done(now, tt.step, Result{Terminal: tt.terminal})
			if m.state != tt.want {
				t.Errorf("%v; want %v", m.state, tt.want)
			}
			if tt.state == Terminating && m.left() != 10 {
				t.Errorf("grace period became %d s; want it as it was", m.left())
			}
			if m.purged {
				t.Error("purged")
			}
		})
	}
}

func TestMachineTerminalGraceIsAtLeastOne(t *testing.T) {
	m := in(Syncing)
	m.pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
	m.done(now, stepSync, Result{Terminal: true})
	if m.state != Terminating || m.left() != 1 {
		t.Errorf("%v with %d s; want terminating with 1 s", m.state, m.left())
	}
}

// All steps of a pod that runs to its end, stays while it is desired, and is then removed.
func TestMachineSteps(t *testing.T) {
	m := newMachine(now, newPod("a", "web"))
	walk := func(want ...step) {
		t.Helper()
		for _, w := range want {
			got := m.step(true)
			if got != w {
				t.Fatalf("step %q in %v; want %q", got, m.state, w)
			}
			m.done(now, got, Result{Terminal: got == stepSync})
		}
	}
	walk(stepSync, stepTerminate, stepCleanUp, stepNothing, stepNothing)
	m.update(now, newPod("a", "web"))
	walk(stepNothing)
	m.remove(now, 30)
	walk(stepPurge, stepDrop, stepDrop)
}

// A pod removed before it started is ended and purged, and never synced.
func TestMachineRemovedBeforeStart(t *testing.T) {
	m := newMachine(now, newPod("a", "web"))
	m.remove(now, 30)
	for _, want := range []step{stepTerminate, stepCleanUp, stepPurge, stepDrop} {
		got := m.step(true)
		if got != want {
			t.Fatalf("step %q; want %q", got, want)
		}
		m.done(now, got, Result{})
	}
}

func TestMachineHoldsName(t *testing.T) {
	want := map[State]bool{Waiting: false, Syncing: true, Terminating: true, Terminated: true, Finished: false}
	for s, holds := range want {
		if in(s).holdsName() != holds {
			t.Errorf("%v: holdsName is %v; want %v", s, !holds, holds)
		}
	}
}

func TestGraceOf(t *testing.T) {
	pod := newPod("a", "web")
	if got := podmeta.GracePeriod(deleted(pod, 7)); got != 7 {
		t.Errorf("of a deleted pod: %d; want the deletion's 7", got)
	}
	if got := podmeta.GracePeriod(pod); got != 30 {
		t.Errorf("of a pod: %d; want its own 30", got)
	}
	pod.Spec.TerminationGracePeriodSeconds = nil
	if got := podmeta.GracePeriod(pod); got != v1.DefaultTerminationGracePeriodSeconds {
		t.Errorf("of a pod without one: %d; want the default", got)
	}
}
