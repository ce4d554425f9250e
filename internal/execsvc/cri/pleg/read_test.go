package pleg

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// A pod that is new needs no call: only its worker reads it.
func TestCurrentOfANewPod(t *testing.T) {
	run(t, nil, func(h *harness) {
		h.wantCurrent("u", nil, 0)
		if pods, _ := h.Pods(); len(pods) > 0 || h.Get("u") != nil {
			t.Errorf("Pods has %v, Get %v", pods, h.Get("u"))
		}
		h.runtime.fail(errors.New("no"))
		h.relist()
		h.wantCurrent("u", nil, 0)
		// Its worker created it; a failed reading doesn't remove it.
		if _, err := h.Refresh(h.t.Context(), "u"); err == nil {
			t.Fatal("no error")
		}
		h.wantStatuses(1)
		h.runtime.set(podWith(observed.Running))
		h.wantCurrent("u", podWith(observed.Running), 1)
		h.wantCurrent("u", podWith(observed.Running), 0)
	})
}

// Before the runtime has been listed, any pod may exist.
func TestCurrentBeforeTheFirstList(t *testing.T) {
	run(t, nil, func(h *harness) {
		h.PLEG = New(Config{Runtime: h.runtime, Clock: h.clock})
		h.runtime.set(podWith(observed.Running))
		h.wantCurrent("u", podWith(observed.Running), 1)
		h.wantCurrent("v", nil, 1)
	})
}

func TestCurrent(t *testing.T) {
	running, exited := podWith(observed.Running), podWith(observed.Exited)
	tests := []struct {
		name string
		// happens comes after the running pod has been read in full.
		happens func(h *harness)
		want    *observed.Pod
		calls   int
	}{
		{"nothing happens", func(*harness) {}, running, 0},
		{"a relist sees no difference", func(h *harness) { h.relist() }, running, 0},
		{"a relist sees a difference", func(h *harness) { h.runtime.set(exited); h.relist() }, exited, 1},
		{"a relist sees that it is gone", func(h *harness) { h.runtime.set(); h.relist() }, nil, 0},
		{"it is refreshed", func(h *harness) {
			h.runtime.set(exited)
			_, _ = h.Refresh(h.t.Context(), "u")
			h.wantStatuses(1)
		}, exited, 0},
		{"it can't be refreshed", func(h *harness) {
			h.runtime.fail(errors.New("no"))
			_, _ = h.Refresh(h.t.Context(), "u")
			h.wantStatuses(1)
			h.runtime.set(exited)
		}, exited, 1},
		{"it can't be refreshed, and a relist sees no difference", func(h *harness) {
			h.runtime.fail(errors.New("no"))
			_, _ = h.Refresh(h.t.Context(), "u")
			h.wantStatuses(1)
			h.runtime.set(running)
			h.relist()
		}, running, 1},
		{"an event", func(h *harness) { h.receive(anything("u")) }, running, 1},
		{"an event, and a relist sees no difference", func(h *harness) { h.receive(anything("u")); h.relist() }, running, 1},
		{"an event of another pod", func(h *harness) { h.receive(anything("v")) }, running, 0},
		{"the runtime can't be listed", func(h *harness) { h.runtime.fail(errors.New("no")); h.relist(); h.runtime.set(running) }, running, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run(t, []*observed.Pod{running}, func(h *harness) {
				h.wantCurrent("u", running, 1)
				tt.happens(h)
				h.wantCurrent("u", tt.want, tt.calls)
				h.wantCurrent("u", tt.want, 0)
			})
		})
	}
}

// A reading may miss a change during it, so it isn't current.
func TestSomethingHappensDuringARefresh(t *testing.T) {
	tests := []struct {
		name    string
		happens func(h *harness)
		events  []Event
	}{
		{"an event", func(h *harness) { h.receive(anything("u")) }, []Event{synced}},
		{"a relist sees it", func(h *harness) { h.relist() }, []Event{{UID: "u", Type: ContainerDied, ID: "c"}}},
		{"another refresh", func(h *harness) {
			if _, err := h.Refresh(h.t.Context(), "v"); err != nil {
				t.Error(err)
			}
			h.receive(anything("u"))
		}, []Event{synced}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run(t, []*observed.Pod{podWith(observed.Running)}, func(h *harness) {
				h.wantCurrent("u", podWith(observed.Running), 1)
				h.isReady()
				h.Take()
				release := h.runtime.holdPod("u")
				done := h.refresh("u")
				h.runtime.set(podWith(observed.Exited))
				tt.happens(h)
				release()
				if pod := <-done; pod.Containers[0].State != observed.Running {
					t.Fatalf("the reading under way had %+v", pod)
				}
				h.want(tt.events...)
				h.statuses = h.runtime.statuses
				h.wantCurrent("u", podWith(observed.Exited), 1)
				h.wantCurrent("u", podWith(observed.Exited), 0)
				h.relist()
				h.want()
			})
		})
	}
}

// refresh refreshes in a goroutine of its own, and returns when that is done or stuck.
func (h *harness) refresh(uid types.UID) <-chan *observed.Pod {
	done := make(chan *observed.Pod, 1)
	go func() {
		pod, err := h.Refresh(h.t.Context(), uid)
		if err != nil {
			h.t.Errorf("Refresh: %v", err)
		}
		done <- pod
	}()
	synctest.Wait()
	return done
}

// Of two overlapping readings, the one that began later counts.
func TestOverlappingRefreshes(t *testing.T) {
	run(t, []*observed.Pod{podWith(observed.Running)}, func(h *harness) {
		release := h.runtime.holdPod("u")
		done := h.refresh("u")
		h.runtime.set(podWith(observed.Exited))
		h.runtime.mu.Lock()
		delete(h.runtime.holdStatus, "u")
		h.runtime.mu.Unlock()
		<-h.refresh("u")
		release()
		<-done
		if pod := h.Get("u"); pod.Containers[0].State != observed.Exited {
			t.Errorf("Get has %+v; want what was read last", pod)
		}
		h.wantStatuses(2)
		h.wantCurrent("u", podWith(observed.Exited), 0)
	})
}

// A reading in progress that is older than a relist which found nothing of the pod doesn't restore it.
func TestPodGoesDuringARefresh(t *testing.T) {
	run(t, []*observed.Pod{podWith(observed.Running)}, func(h *harness) {
		release := h.runtime.holdPod("u")
		done := h.refresh("u")
		h.runtime.set()
		h.relist()
		release()
		<-done
		if pod := h.Get("u"); pod != nil {
			t.Errorf("Get has %+v", pod)
		}
		h.statuses = h.runtime.statuses
		h.wantCurrent("u", nil, 0)
	})
}

// A pod that a worker created during a relist stays, though that relist didn't see it.
func TestPodComesDuringARelist(t *testing.T) {
	run(t, nil, func(h *harness) {
		release := h.runtime.holdList()
		h.relist()
		h.runtime.set(podWith(observed.Running))
		releasePod := h.runtime.holdPod("u")
		done := h.refresh("u")
		release()
		synctest.Wait()
		releasePod()
		<-done
		if h.Get("u") == nil {
			t.Error("Get has nothing")
		}
		h.statuses = h.runtime.statuses
		h.wantCurrent("u", podWith(observed.Running), 0)
	})
}

// A pod whose reading hangs delays no other (kubernetes#45419).
func TestHungPodDelaysNoOther(t *testing.T) {
	other := func(s observed.State) *observed.Pod {
		return &observed.Pod{UID: "v", Containers: []observed.Container{{ID: "d", State: s}}}
	}
	runEvented(t, []*observed.Pod{podWith(observed.Running), other(observed.Running)}, func(h *harness) {
		release := h.runtime.holdPod("u")
		done := h.refresh("u")
		h.wantStatuses(1)
		h.runtime.set(podWith(observed.Running), other(observed.Exited))
		h.report(anything("v"))
		h.want(Event{UID: "v", Type: PodSync})
		h.wantCurrent("v", other(observed.Exited), 1)
		h.runtime.set(podWith(observed.Running), other(observed.Running))
		h.step(30 * time.Second)
		h.wantLists(1)
		h.want(Event{UID: "v", Type: ContainerStarted, ID: "d"})
		h.step(10 * time.Minute)
		if err := h.Health(); err != nil {
			t.Errorf("unhealthy: %v", err)
		}
		release()
		<-done
		h.wantCurrent("u", podWith(observed.Running), 0)
	})
}

// Get has the details of a full reading, until there is a newer one: a relist has none. GetFull has no relists at all.
func TestGet(t *testing.T) {
	run(t, []*observed.Pod{podWith(observed.Running)}, func(h *harness) {
		if pod := h.Get("u"); pod == nil || pod.Name != "" {
			t.Errorf("Get has %+v; want what the relist saw", pod)
		}
		if pod := h.GetFull("u"); pod != nil {
			t.Errorf("GetFull has %+v; want nothing yet", pod)
		}
		h.wantCurrent("u", podWith(observed.Running), 1)
		h.runtime.set(podWith(observed.Exited))
		h.relist()
		if pod := h.Get("u"); pod == nil || pod.Name != "in full" || pod.Containers[0].State != observed.Running {
			t.Errorf("Get has %+v; want the last full reading", pod)
		}
		if h.GetFull("u") != h.Get("u") {
			t.Errorf("GetFull has %+v; want the last full reading", h.GetFull("u"))
		}
		h.wantPods(podStates{"u": observed.Exited})
		h.wantCurrent("u", podWith(observed.Exited), 1)
		if pod := h.Get("u"); pod.Containers[0].State != observed.Exited {
			t.Errorf("Get has %+v; want the last full reading", pod)
		}
		h.runtime.set()
		h.relist()
		if pod := h.Get("u"); pod != nil {
			t.Errorf("Get has %+v of a pod that has gone", pod)
		}
		if pod := h.GetFull("u"); pod != nil {
			t.Errorf("GetFull has %+v of a pod that has gone", pod)
		}
	})
}

func TestUnhealthyWithoutRelist(t *testing.T) {
	runEvented(t, nil, func(h *harness) {
		release := h.runtime.holdList()
		h.step(30 * time.Second)
		h.wantLists(1)
		h.step(150 * time.Second)
		if err := h.Health(); err != nil {
			t.Errorf("unhealthy after 3 min: %v", err)
		}
		h.step(time.Second)
		if h.Health() == nil {
			t.Error("healthy although no relist has ended for more than 3 min")
		}
		release()
		h.step(0)
		h.relist()
		if err := h.Health(); err != nil {
			t.Errorf("unhealthy after a relist: %v", err)
		}
	})
}
