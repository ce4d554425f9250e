package pleg

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// end ends processes, and waits until that is handled.
func (h *harness) end(ids ...string) {
	h.exits.end(ids...)
	synctest.Wait()
}

// wantFollowed checks which processes are followed.
func (h *harness) wantFollowed(want map[string]int) {
	h.t.Helper()
	h.exits.mu.Lock()
	defer h.exits.mu.Unlock()
	if diff := cmp.Diff(want, h.exits.followed); diff != "" {
		h.t.Errorf("followed (-want +got):\n%s", diff)
	}
}

// process7 returns a pod with a process.
func process7() *observed.Pod {
	return &observed.Pod{UID: "u", Containers: []observed.Container{{ID: "c", State: observed.Running, PID: 7}}}
}

// pausesOfLate are the pauses, in milliseconds, between the readings that show an ended process as running.
var pausesOfLate = []int{5, 10, 20, 40, 80, 160, 320, 640}

func TestEndIsSeenAtOnce(t *testing.T) {
	runFollowed(t, []*observed.Pod{process7()}, func(h *harness) {
		h.wantFollowed(map[string]int{"c": 7})
		h.runtime.set(podWith(observed.Exited))
		h.end("c")
		h.want(synced)
		h.wantCurrent("u", podWith(observed.Exited), 1)
		h.wantFollowed(map[string]int{})
		// That reading was complete; the next relist is in half a minute.
		h.step(29*time.Second - time.Nanosecond)
		h.want()
		h.wantLists(0)
		h.step(time.Nanosecond)
		h.wantLists(1)
		h.want()
	})
}

// A sandbox whose process ends isn't ready any more.
func TestSandboxEnds(t *testing.T) {
	box := func(ready bool) *observed.Pod {
		return &observed.Pod{UID: "u", Sandboxes: []observed.Sandbox{{ID: "s", Ready: ready, PID: 6}}}
	}
	runFollowed(t, []*observed.Pod{box(true)}, func(h *harness) {
		h.wantFollowed(map[string]int{"s": 6})
		h.runtime.set(box(false))
		h.end("s")
		h.want(synced)
		h.wantCurrent("u", box(false), 1)
		h.wantFollowed(map[string]int{})
	})
}

// A container that ended before it could be followed is read again.
func TestEndedBeforeItWasFollowed(t *testing.T) {
	runFollowed(t, nil, func(h *harness) {
		h.exits.gone["c"] = true
		h.runtime.set(process7())
		if _, err := h.Refresh(t.Context(), "u"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		h.want(synced)
		h.runtime.set(podWith(observed.Exited))
		h.statuses = h.runtime.statuses
		h.wantCurrent("u", podWith(observed.Exited), 1)
		h.step(time.Second)
		h.want()
	})
}

// The runtime may learn of an end after the kernel has reported it. Each reading that doesn't show it yet is followed
// by another one.
func TestRuntimeLagsBehindTheKernel(t *testing.T) {
	for readings := range pausesOfLate {
		t.Run(fmt.Sprintf("%d readings", readings), func(t *testing.T) {
			runFollowed(t, []*observed.Pod{process7()}, func(h *harness) {
				h.end("c")
				h.want(synced)
				for _, pause := range pausesOfLate[:readings] {
					h.wantCurrent("u", process7(), 1)
					h.wantCurrent("u", process7(), 0)
					h.step(time.Duration(pause)*time.Millisecond - time.Nanosecond)
					h.want()
					h.step(time.Nanosecond)
					h.want(synced)
				}
				h.runtime.set(podWith(observed.Exited))
				h.wantCurrent("u", podWith(observed.Exited), 1)
				h.wantFollowed(map[string]int{})
				h.step(time.Second)
				h.want()
			})
		})
	}
}

// A pod is not read only because its next mark is due: its worker may not have read it yet.
func TestDueMarkCausesNoRead(t *testing.T) {
	runFollowed(t, []*observed.Pod{process7()}, func(h *harness) {
		h.end("c")
		h.want(synced)
		h.step(10 * time.Second)
		h.want()
		h.wantStatuses(0)
	})
}

// Pauses are counted by container: the end of another one of the pod makes none of them longer.
func TestTwoEnd(t *testing.T) {
	both := &observed.Pod{UID: "u", Containers: []observed.Container{
		{ID: "c", State: observed.Running, PID: 7}, {ID: "d", State: observed.Running, PID: 8},
	}}
	runFollowed(t, []*observed.Pod{both}, func(h *harness) {
		h.end("c")
		h.read("u")
		h.step(2 * time.Millisecond)
		h.Take()
		h.end("d")
		h.read("u")
		h.isReady()
		h.Take()
		for _, pause := range []int{3, 2} {
			h.step(time.Duration(pause)*time.Millisecond - time.Nanosecond)
			h.want()
			h.step(time.Nanosecond)
			h.want(synced)
			h.read("u")
		}
		// c's second pause began after 5 ms, d's after 7.
		for _, pause := range []int{8, 2} {
			h.step(time.Duration(pause)*time.Millisecond - time.Nanosecond)
			h.want()
			h.step(time.Nanosecond)
			h.want(synced)
			h.read("u")
		}
	})
}

// A runtime that doesn't learn of the end is listed each second until it has, and rarely after that.
func TestRuntimeNeverLearns(t *testing.T) {
	runFollowed(t, []*observed.Pod{process7()}, func(h *harness) {
		h.end("c")
		for _, pause := range pausesOfLate {
			h.read("u")
			h.step(time.Duration(pause) * time.Millisecond)
		}
		h.isReady()
		h.Take()
		h.wantLists(0)
		h.read("u")
		h.wantLists(1)
		h.statuses = h.runtime.statuses
		for range 20 {
			h.relist()
			h.wantLists(1)
			h.want()
			h.wantStatuses(0)
		}
		if log := h.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, "another pid namespace") {
			t.Errorf("log %q; want one line", log)
		}
		h.runtime.set(podWith(observed.Exited))
		h.relist()
		h.want(Event{UID: "u", Type: ContainerDied, ID: "c"})
		h.read("u")
		h.step(time.Second)
		h.lists = h.runtime.lists
		h.step(28 * time.Second)
		h.wantLists(0)
	})
}
