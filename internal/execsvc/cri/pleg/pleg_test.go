package pleg

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// A loop that waits for the first list must not wait for ever on a node where nothing runs.
func TestReadyAfterFirstListEvenIfEmpty(t *testing.T) {
	run(t, nil, func(h *harness) {
		if _, listed := h.Pods(); !listed || !h.isReady() {
			t.Errorf("not ready after the first relist")
		}
		h.relist()
		if h.isReady() || len(h.Take()) > 0 {
			t.Error("ready again although nothing happened")
		}
	})
}

func TestNotReadyBeforeTheRuntimeAnswers(t *testing.T) {
	run(t, nil, func(h *harness) {
		h.isReady()
		p := New(Config{Runtime: h.runtime, Clock: h.clock})
		if err := p.Health(); err != nil {
			t.Errorf("unhealthy before it began: %v", err)
		}
		h.runtime.fail(errors.New("no runtime"))
		p.relist(h.t.Context())
		if _, listed := p.Pods(); listed || len(p.Ready()) > 0 || p.Health() == nil {
			t.Errorf("listed %v, ready %d, health %v after a relist that failed", listed, len(p.Ready()), p.Health())
		}
		h.runtime.set()
		p.relist(h.t.Context())
		if _, listed := p.Pods(); !listed || len(p.Ready()) == 0 || p.Health() != nil {
			t.Errorf("listed %v, ready %d, health %v after a relist that went well", listed, len(p.Ready()), p.Health())
		}
	})
}

func TestRelist(t *testing.T) {
	run(t, []*observed.Pod{podWith(observed.Running)}, func(h *harness) {
		h.want(Event{UID: "u", Type: ContainerStarted, ID: "c"})
		h.relist()
		h.want()
		h.runtime.set(podWith(observed.Exited))
		h.clock.Step(999 * time.Millisecond)
		synctest.Wait()
		h.want()
		h.clock.Step(time.Millisecond)
		synctest.Wait()
		h.want(Event{UID: "u", Type: ContainerDied, ID: "c"})
		h.wantPods(podStates{"u": observed.Exited})
	})
}

func TestPodVanishes(t *testing.T) {
	run(t, []*observed.Pod{podWith(observed.Running)}, func(h *harness) {
		h.want(Event{UID: "u", Type: ContainerStarted, ID: "c"})
		h.runtime.set()
		h.relist()
		h.want(Event{UID: "u", Type: ContainerDied, ID: "c"}, Event{UID: "u", Type: ContainerRemoved, ID: "c"})
		h.wantPods(podStates{})
		h.relist()
		h.want()
	})
}

// Events wait until they are taken; upstream loses them when its channel is full (kubernetes#136408).
func TestEventsWaitUntilTaken(t *testing.T) {
	run(t, nil, func(h *harness) {
		h.isReady()
		const rounds = 5000
		var want []Event
		for range rounds / 2 {
			h.runtime.set(podWith(observed.Running))
			h.PLEG.relist(h.t.Context())
			h.runtime.set(podWith(observed.Exited))
			h.PLEG.relist(h.t.Context())
			want = append(want, Event{UID: "u", Type: ContainerStarted, ID: "c"}, Event{UID: "u", Type: ContainerDied, ID: "c"})
		}
		h.want(want...)
	})
}

// Events that weren't taken are announced again by the next relist.
func TestEventsAreAnnouncedAgain(t *testing.T) {
	run(t, []*observed.Pod{podWith(observed.Running)}, func(h *harness) {
		if !h.isReady() {
			t.Fatal("not ready")
		}
		h.relist()
		h.want(Event{UID: "u", Type: ContainerStarted, ID: "c"})
	})
}

func TestRefreshReportsToItsCallerOnly(t *testing.T) {
	run(t, []*observed.Pod{podWith(observed.Running)}, func(h *harness) {
		h.want(Event{UID: "u", Type: ContainerStarted, ID: "c"})
		h.runtime.set(podWith(observed.Exited))
		pod, err := h.Refresh(h.t.Context(), "u")
		if err != nil || pod.Containers[0].State != observed.Exited {
			t.Fatalf("Refresh: %v, %v", pod, err)
		}
		h.wantPods(podStates{"u": observed.Exited})
		h.relist()
		h.want()
	})
}

func TestRefreshFails(t *testing.T) {
	run(t, []*observed.Pod{podWith(observed.Running)}, func(h *harness) {
		failure := errors.New("no")
		h.runtime.fail(failure)
		if _, err := h.Refresh(h.t.Context(), "u"); !errors.Is(err, failure) {
			t.Errorf("Refresh: %v; want %v", err, failure)
		}
		h.wantPods(podStates{"u": observed.Running})
	})
}

// A relist that began before a Refresh and ends after it has the older state.
func TestRefreshWinsAgainstRelistUnderWay(t *testing.T) {
	gone := &observed.Pod{UID: "u"}
	tests := []struct {
		name          string
		before, after *observed.Pod
		wantPods      podStates
	}{
		{name: "changed", before: podWith(observed.Running), after: podWith(observed.Exited), wantPods: podStates{"u": observed.Exited}},
		{name: "came", before: nil, after: podWith(observed.Running), wantPods: podStates{"u": observed.Running}},
		{name: "went", before: podWith(observed.Exited), after: nil, wantPods: podStates{}},
		{name: "went, empty", before: podWith(observed.Exited), after: gone, wantPods: podStates{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			has := func(p *observed.Pod) []*observed.Pod {
				if p == nil {
					return nil
				}
				return []*observed.Pod{p}
			}
			run(t, has(tt.before), func(h *harness) {
				h.isReady()
				h.Take()
				release := h.runtime.holdList()
				h.relist()

				h.runtime.set(has(tt.after)...)
				if _, err := h.Refresh(h.t.Context(), "u"); err != nil {
					t.Fatal(err)
				}
				release()
				synctest.Wait()
				h.want()
				h.wantPods(tt.wantPods)
				h.relist()
				h.want()
				h.wantPods(tt.wantPods)
			})
		})
	}
}

func TestRuntimeErrors(t *testing.T) {
	run(t, []*observed.Pod{podWith(observed.Running)}, func(h *harness) {
		h.want(Event{UID: "u", Type: ContainerStarted, ID: "c"})
		failure := errors.New("connection refused")
		h.runtime.fail(failure)
		for range 3 {
			h.relist()
		}
		if err := h.Health(); !errors.Is(err, failure) {
			t.Errorf("Health is %v; want %v", err, failure)
		}
		if err := h.Stalled(); err != nil {
			t.Errorf("Stalled is %v after three seconds", err)
		}
		for range 180 {
			h.relist()
		}
		if err := h.Stalled(); err == nil || err.Error() != "pleg was last seen active 3m3s ago; threshold is 3m0s" {
			t.Errorf("Stalled is %v after three minutes", err)
		}
		// The known state stays: a runtime that doesn't answer isn't an empty one.
		h.want()
		h.wantPods(podStates{"u": observed.Running})
		if n := strings.Count(h.log.String(), "\n"); n != 1 || !strings.Contains(h.log.String(), "level=ERROR") {
			t.Errorf("log %q; want one error", h.log)
		}
		h.runtime.set(podWith(observed.Exited))
		h.relist()
		h.relist()
		h.want(Event{UID: "u", Type: ContainerDied, ID: "c"})
		if err := h.Health(); err != nil {
			t.Errorf("Health is %v after the runtime has answered", err)
		}
		if err := h.Stalled(); err != nil {
			t.Errorf("Stalled is %v after the runtime has answered", err)
		}
		if n := strings.Count(h.log.String(), "\n"); n != 2 {
			t.Errorf("log %q; want one more line", h.log)
		}
	})
}

// A relist that is cancelled with podexecd is no failure of the runtime.
func TestEndIsNoError(t *testing.T) {
	var h *harness
	run(t, nil, func(running *harness) {
		h = running
		h.runtime.holdList()
		h.relist()
	})
	if h.Health() != nil || h.log.Len() > 0 {
		t.Errorf("health %v, log %q; want neither", h.Health(), h.log)
	}
}
