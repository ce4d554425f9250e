package pleg

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// While a process runs whose end may be missed, relists run each second.
func TestUnfollowable(t *testing.T) {
	unknown := podWith(observed.Unknown)
	tests := []struct {
		name   string
		refuse error
		pod    *observed.Pod
	}{
		{"a process that can't be followed", errors.New("no"), process7()},
		{"a runtime that tells no process", nil, podWith(observed.Running)},
		{"a container that the runtime has lost track of", nil, unknown},
		{"a sandbox without a process", nil, &observed.Pod{UID: "u", Sandboxes: []observed.Sandbox{{ID: "s", Ready: true}}}},
		{"one of two", nil, &observed.Pod{UID: "u", Containers: []observed.Container{
			{ID: "c", State: observed.Running, PID: 7}, {ID: "d", State: observed.Running},
		}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			runFollowed(t, nil, func(h *harness) {
				h.exits.set(tt.refuse)
				h.runtime.set(tt.pod)
				if _, err := h.Refresh(t.Context(), "u"); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				h.wantLists(1)
				for range 20 {
					h.relist()
					h.wantLists(1)
					h.read("u")
				}
				if n := strings.Count(h.log.String(), "\n"); n != 1 {
					t.Errorf("log %q; want one line", h.log)
				}
				h.runtime.set(podWith(observed.Exited))
				if _, err := h.Refresh(t.Context(), "u"); err != nil {
					t.Fatal(err)
				}
				h.step(time.Second)
				h.lists = h.runtime.lists
				h.step(28 * time.Second)
				h.wantLists(0)
				h.wantFollowed(map[string]int{})
			})
		})
	}
}

// A pod without a full reading isn't followed, so a pod that only a relist has seen may change unnoticed.
func TestNotReadInFull(t *testing.T) {
	start(t, []*observed.Pod{process7()}, observed.ErrNoEvents, true, func(h *harness) {
		h.wantLists(1)
		for range 10 {
			h.relist()
			h.wantLists(1)
		}
		h.read("u")
		h.step(30*time.Second - time.Nanosecond)
		h.wantLists(0)
		h.step(time.Nanosecond)
		h.wantLists(1)
	})
}

// A process that can't be followed now may be later: a file descriptor may be free by then.
func TestFollowedLater(t *testing.T) {
	runFollowed(t, nil, func(h *harness) {
		h.exits.set(errors.New("too many open files"))
		h.runtime.set(process7())
		for _, refuse := range []error{errors.New("too many open files"), nil} {
			h.exits.set(refuse)
			if _, err := h.Refresh(t.Context(), "u"); err != nil {
				t.Fatal(err)
			}
		}
		h.wantFollowed(map[string]int{"c": 7})
		h.relist()
		h.lists = h.runtime.lists
		h.step(29*time.Second - time.Nanosecond)
		h.wantLists(0)
	})
}

// While the runtime doesn't answer, no pod can be read, and the kernel still reports ends. They are read once it is
// back.
func TestRuntimeRestarts(t *testing.T) {
	runFollowed(t, []*observed.Pod{process7()}, func(h *harness) {
		h.runtime.fail(errors.New("connection refused"))
		h.end("c")
		h.want(synced)
		if _, err := h.Current(t.Context(), "u"); err == nil {
			t.Fatal("no error")
		}
		synctest.Wait()
		for range 5 {
			h.wantLists(1)
			h.relist()
		}
		// It comes back in its old state, and then sees the change.
		h.runtime.set(process7())
		h.relist()
		h.relist()
		h.want()
		h.runtime.set(podWith(observed.Exited))
		h.relist()
		h.want(Event{UID: "u", Type: ContainerDied, ID: "c"})
		h.statuses = h.runtime.statuses
		h.wantCurrent("u", podWith(observed.Exited), 1)
		h.wantFollowed(map[string]int{})
	})
}

// A restart of the runtime without an end changes nothing: the processes are the same.
func TestRuntimeRestartsIdly(t *testing.T) {
	runFollowed(t, []*observed.Pod{process7()}, func(h *harness) {
		h.runtime.fail(errors.New("connection refused"))
		h.step(30 * time.Second)
		h.runtime.set(process7())
		h.relist()
		h.wantFollowed(map[string]int{"c": 7})
		h.want()
		h.relist()
		h.lists = h.runtime.lists
		h.step(28 * time.Second)
		h.wantLists(0)
		h.runtime.set(podWith(observed.Exited))
		h.end("c")
		h.want(synced)
	})
}

// A reading may miss an end during it, so there is another one.
func TestEndDuringARefresh(t *testing.T) {
	runFollowed(t, []*observed.Pod{process7()}, func(h *harness) {
		release := h.runtime.holdPod("u")
		done := h.refresh("u")
		h.runtime.set(podWith(observed.Exited))
		h.end("c")
		release()
		<-done
		h.want(synced)
		h.step(100 * time.Millisecond)
		h.want()
		h.statuses = h.runtime.statuses
		h.wantCurrent("u", podWith(observed.Exited), 1)
	})
}

// A reading in progress of a pod that a relist has found gone follows no process.
func TestFollowedPodGoesDuringARefresh(t *testing.T) {
	runFollowed(t, []*observed.Pod{process7()}, func(h *harness) {
		release := h.runtime.holdPod("u")
		done := h.refresh("u")
		h.runtime.set()
		poke(h.hurry)
		synctest.Wait()
		h.wantLists(1)
		h.wantFollowed(map[string]int{})
		release()
		<-done
		h.wantFollowed(map[string]int{})
	})
}

// Events and the kernel report the same change: the first one has the pod read, and the other one isn't a second event
// until then.
func TestEventsAndEnds(t *testing.T) {
	start(t, []*observed.Pod{process7()}, nil, true, func(h *harness) {
		h.relist()
		h.read("u")
		h.isReady()
		h.Take()
		h.runtime.set(podWith(observed.Exited))
		h.end("c")
		h.report(anything("u"))
		h.want(synced)
		h.statuses = h.runtime.statuses
		h.wantCurrent("u", podWith(observed.Exited), 1)
		h.step(20 * time.Second)
		h.want()
		// When the stream breaks, the runtime is listed once; all running processes are followed.
		h.lists = h.runtime.lists
		h.runtime.watchReturns(observed.ErrNoEvents)
		h.runtime.breaks <- errors.New("broken")
		h.step(20 * time.Second)
		h.wantLists(1)
	})
}

// The end of an unknown container, or of one that is no longer known, has no effect.
func TestEndOfUnknownContainer(t *testing.T) {
	runFollowed(t, []*observed.Pod{process7()}, func(h *harness) {
		h.ends([]string{"x"})
		h.want()
		h.runtime.set(podWith(observed.Exited))
		if _, err := h.Refresh(t.Context(), "u"); err != nil {
			t.Fatal(err)
		}
		h.ends([]string{"c"})
		h.want()
		h.statuses = h.runtime.statuses
		h.wantCurrent("u", podWith(observed.Exited), 0)
	})
}

// A thousand containers come, and end in every way; in the end no process is followed.
func TestChurnLeavesNothingFollowed(t *testing.T) {
	pod := func(uid types.UID, id string, state observed.State, pid int) *observed.Pod {
		return &observed.Pod{UID: uid, Containers: []observed.Container{{ID: id, State: state, PID: pid}}}
	}
	runFollowed(t, nil, func(h *harness) {
		for i := range 1000 {
			uid, id := types.UID(fmt.Sprint(i/2)), fmt.Sprint("c", i)
			h.runtime.set(pod(uid, id, observed.Running, i+1))
			if _, err := h.Refresh(t.Context(), uid); err != nil {
				t.Fatal(err)
			}
			h.wantFollowed(map[string]int{id: i + 1})
			switch i % 4 {
			case 0: // The kernel reports the end, and the reading after that shows it.
				h.runtime.set(pod(uid, id, observed.Exited, 0))
				h.end(id)
				h.read(uid)
			case 1: // A relist finds the pod gone.
				h.runtime.set()
				h.PLEG.relist(t.Context())
			case 2: // The worker has ended it.
				h.runtime.set(pod(uid, id, observed.Exited, 0))
				if _, err := h.Refresh(t.Context(), uid); err != nil {
					t.Fatal(err)
				}
			case 3: // A relist finds it ended.
				h.runtime.set(pod(uid, id, observed.Exited, 0))
				h.PLEG.relist(t.Context())
			}
			h.wantFollowed(map[string]int{})
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		for uid, r := range h.pods {
			if len(r.processes) > 0 {
				t.Errorf("%s still has %v", uid, maps.Clone(r.processes))
			}
		}
	})
}
