package worker

import (
	"testing"
	"time"
)

// TestSameStatus: a backoff's end that moves by less than a second isn't a change of the status; a second is.
func TestSameStatus(t *testing.T) {
	s := Status{Pod: newPod("a", "web"), State: Syncing, Retry: now}
	for _, tc := range []struct {
		moved time.Duration
		want  bool
	}{{0, true}, {time.Second - 1, true}, {-time.Second + 1, true}, {time.Second, false}, {-time.Second, false}} {
		o := s
		o.Retry = now.Add(tc.moved)
		if got := s.same(o); got != tc.want {
			t.Errorf("an end that moves by %s: same reports %v; want %v", tc.moved, got, tc.want)
		}
	}
}

// TestDoneOfAnotherState: the result of a step counts only in the state that the step was for.
func TestDoneOfAnotherState(t *testing.T) {
	for _, tc := range []struct {
		state State
		step  step
		want  State
	}{
		{Terminating, stepTerminate, Terminated},
		{Terminated, stepCleanUp, Finished},
		{Syncing, stepTerminate, Syncing},
		{Syncing, stepCleanUp, Syncing},
		{Terminating, stepCleanUp, Terminating},
		{Finished, stepTerminate, Finished},
	} {
		m := in(tc.state)
		m.done(now, tc.step, Result{})
		if m.state != tc.want {
			t.Errorf("in state %v step %v leads to %v; want %v", tc.state, tc.step, m.state, tc.want)
		}
	}
	m := in(Terminating)
	m.done(now, stepSync, Result{Terminal: true})
	if m.state != Terminating || m.left() != 10 {
		t.Errorf("a sync that ends during the termination leads to %v with %d s left; want Terminating with 10", m.state, m.left())
	}
}
