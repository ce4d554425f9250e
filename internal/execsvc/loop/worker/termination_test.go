package worker

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/decide/status"
)

var (
	evicted = &status.Failure{Reason: "Evicted", Message: "The node was low on resource: memory."}
	late    = &status.Failure{Reason: "DeadlineExceeded"}
)

func TestGraceLeft(t *testing.T) {
	tests := []struct {
		name  string
		grace int64
		after time.Duration
		want  int64
	}{
		{"at once", 30, 0, 30},
		{"a moment later", 30, time.Millisecond, 30},
		{"a second later", 30, time.Second, 29},
		{"rounded up", 30, 28500 * time.Millisecond, 2},
		{"at the end", 30, 30 * time.Second, 1},
		{"after the end", 30, time.Hour, 1},
		{"if the clock was set back", 30, -time.Second, 31},
		{"none", 0, 0, 1},
		{"negative", -7, 0, 1},
		{"for ever", math.MaxInt64, 0, longestGrace},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := NewTermination(now, tt.grace, nil).left(now.Add(tt.after)); got != tt.want {
				t.Errorf("%d s are left; want %d", got, tt.want)
			}
		})
	}
}

func TestMachineKill(t *testing.T) {
	tests := []struct {
		name      string
		state     State
		grace     *int64
		want      bool
		wantState State
		wantGrace int64
		// wantWhy is set if the pod ends with the failure of the kill.
		wantWhy bool
	}{
		{"waiting", Waiting, ptr.To[int64](5), true, Terminating, 5, true},
		{"syncing", Syncing, ptr.To[int64](5), true, Terminating, 5, true},
		{"with its own grace period", Syncing, nil, true, Terminating, 30, true},
		{"at once", Syncing, ptr.To[int64](0), true, Terminating, 1, true},
		{"terminating, shorter", Terminating, ptr.To[int64](3), true, Terminating, 3, true},
		{"terminating, longer", Terminating, nil, true, Terminating, 10, false},
		{"terminated", Terminated, ptr.To[int64](3), false, Terminated, 10, false},
		{"finished", Finished, ptr.To[int64](3), false, Finished, 10, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := in(tt.state)
			if got := m.kill(now, Kill{Grace: tt.grace, Failure: evicted}); got != tt.want {
				t.Errorf("kill is %v; want %v", got, tt.want)
			}
			if m.state != tt.wantState || m.left() != tt.wantGrace || (m.end.Failure == evicted) != tt.wantWhy || m.removed {
				t.Errorf("%v with %d s, %+v; want %v with %d s", m.state, m.left(), m.end.Failure, tt.wantState, tt.wantGrace)
			}
		})
	}
}

// A grace period begins at the call that sets it: a shorter one that would end later shortens nothing.
func TestMachineDeadlineOnlyBecomesEarlier(t *testing.T) {
	m := in(Syncing)
	for _, word := range []struct {
		after       time.Duration
		grace, left int64
	}{{0, 30, 30}, {10 * time.Second, 25, 20}, {15 * time.Second, 30, 15}, {20 * time.Second, 2, 2}, {21 * time.Second, 2, 1}} {
		at := now.Add(word.after)
		m.remove(at, word.grace)
		if got := m.end.left(at); got != word.left {
			t.Errorf("after %v: %d s are left; want %d", word.after, got, word.left)
		}
	}
}

func TestKilledPodStaysDesired(t *testing.T) {
	run(t, func(h *harness) {
		if h.Kill("a", Kill{Failure: evicted}) {
			t.Error("an unknown pod was killed")
		}
		h.Update(newPod("a", "web"))
		h.want("sync a")
		if !h.Kill("a", Kill{Grace: ptr.To[int64](5), Failure: evicted}) {
			t.Error("not killed")
		}
		h.want("terminate a 5 Evicted", "clean up a Evicted")
		h.wantState("a", Finished)
		h.Update(version(newPod("a", "web"), "v2"))
		h.Sync("a")
		h.clock.Step(time.Hour)
		h.want()
		if got, _ := h.Get("a"); got.Termination.Failure != evicted || got.Removed {
			t.Errorf("status %+v", got)
		}
		if h.Kill("a", Kill{}) {
			t.Error("a pod that has ended was killed")
		}
		h.Remove(newPod("a", "web"), 30)
		h.want("purge a:v2")
	})
}

// A pod that is killed while it waits for its name leaves the queue.
func TestKilledWhileWaiting(t *testing.T) {
	run(t, func(h *harness) {
		h.Update(newPod("a", "web"))
		h.want("sync a")
		h.Update(newPod("b", "web"))
		h.Kill("b", Kill{Failure: evicted})
		h.want("terminate b 30 Evicted", "clean up b Evicted")
		h.Remove(newPod("a", "web"), 30)
		h.want("terminate a 30", "clean up a", "purge a")
		h.wantState("b", Finished)
	})
}

func TestFailureEndsThePod(t *testing.T) {
	run(t, func(h *harness) {
		h.plan("sync a", func(context.Context) (Result, error) { return Result{Failure: late}, nil })
		h.Update(newPod("a", "web"))
		h.want("sync a", "terminate a 30 DeadlineExceeded", "clean up a DeadlineExceeded")
		h.wantState("a", Finished)
	})
}

// The Failure of a sync that returns an error is ignored.
func TestFailureAfterAnError(t *testing.T) {
	run(t, func(h *harness) {
		h.plan("sync a", func(context.Context) (Result, error) { return Result{Failure: late, Terminal: true}, errors.New("no") })
		h.Update(newPod("a", "web"))
		h.want("sync a")
		h.wantState("a", Syncing)
	})
}

// A repeated call gets the rest of the grace period.
func TestTerminationGoesOn(t *testing.T) {
	run(t, func(h *harness) {
		for _, call := range []string{"terminate a 30", "terminate a 20", "terminate a 10", "terminate a 1"} {
			h.fail(call, errors.New("no"))
		}
		h.Update(newPod("a", "web"))
		h.want("sync a")
		h.Remove(newPod("a", "web"), 30)
		h.want("terminate a 30")
		h.wantPause(10*time.Second, "terminate a 20")
		h.clock.Step(9500 * time.Millisecond)
		h.want()
		h.fail("terminate a 11", errors.New("no"))
		h.Sync("a")
		h.want("terminate a 11")
		h.wantPause(10*time.Second, "terminate a 1")
		h.wantPause(10*time.Second, "terminate a 1")
	})
}

func TestResume(t *testing.T) {
	in := func(d time.Duration) Termination { return Termination{Grace: 30, Deadline: time.Unix(1000, 0).Add(d)} }
	t.Run("removed", func(t *testing.T) {
		run(t, func(h *harness) {
			h.Resume(newPod("a", "web"), in(12*time.Second), true)
			h.want("terminate a 12", "clean up a", "purge a")
			h.wantGone("a")
		})
	})
	t.Run("desired", func(t *testing.T) {
		run(t, func(h *harness) {
			end := in(12 * time.Second)
			end.Failure = evicted
			h.Resume(newPod("a", "web"), end, false)
			h.want("terminate a 12 Evicted", "clean up a Evicted")
			h.Update(newPod("a", "web"))
			h.want()
			h.wantState("a", Finished)
		})
	})
	t.Run("late", func(t *testing.T) {
		run(t, func(h *harness) {
			h.Resume(newPod("a", "web"), in(-time.Hour), true)
			h.want("terminate a 1", "clean up a", "purge a")
		})
	})
	t.Run("after the clock was set back", func(t *testing.T) {
		run(t, func(h *harness) {
			h.Resume(newPod("a", "web"), in(time.Hour), true)
			h.want("terminate a 30", "clean up a", "purge a")
		})
	})
	t.Run("and wanted again", func(t *testing.T) {
		run(t, func(h *harness) {
			release := h.block("terminate a 12")
			h.Resume(newPod("a", "web"), in(12*time.Second), true)
			h.want("terminate a 12")
			h.Update(version(newPod("a", "web"), "v2"))
			h.Update(newPod("b", "web"))
			h.want()
			release()
			// b was there before the new a.
			h.wantState("b", Syncing)
			h.wantState("a", Waiting)
		})
	})
	t.Run("of a pod that is worked on", func(t *testing.T) {
		run(t, func(h *harness) {
			h.block("sync a")
			h.Update(newPod("a", "web"))
			h.want("sync a")
			h.Resume(newPod("a", "web"), in(12*time.Second), true)
			h.want("terminate a 12", "clean up a", "purge a")
		})
	})
}
