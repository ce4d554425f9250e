package pleg

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// The runtime sends events of an action while it goes on and a little later. One reading after it shows them all.
func TestOwnActionIsReadOnce(t *testing.T) {
	runEvented(t, nil, func(h *harness) {
		done := h.Act("u")
		h.report(podWith(observed.Created))
		h.runtime.set(podWith(observed.Running))
		h.report(podWith(observed.Running))
		if _, err := h.Refresh(t.Context(), "u"); err != nil {
			t.Fatal(err)
		}
		done()
		h.report(podWith(observed.Created), podWith(observed.Running))
		h.want()
		h.wantStatuses(1)
		h.wantCurrent("u", podWith(observed.Running), 0)
		// The next change is a new one.
		h.runtime.set(podWith(observed.Exited))
		h.report(podWith(observed.Exited))
		h.want(synced)
		h.wantCurrent("u", podWith(observed.Exited), 1)
	})
}

// A change that the reading after an action doesn't show has the pod read again: no change may be lost.
func TestNewsDuringAnAction(t *testing.T) {
	refresh := func(h *harness) {
		if _, err := h.Refresh(h.t.Context(), "u"); err != nil {
			h.t.Error(err)
		}
	}
	exited := func(h *harness) {
		h.runtime.set(podWith(observed.Exited))
		h.report(podWith(observed.Exited))
	}
	tests := []struct {
		name string
		acts func(h *harness)
	}{
		{"nobody reads it", exited},
		{"it comes after the reading", func(h *harness) { refresh(h); exited(h) }},
		{"it comes during the reading, which misses it", func(h *harness) {
			release := h.runtime.holdPod("u")
			read := h.refresh("u")
			exited(h)
			release()
			<-read
		}},
		{"the reading fails", func(h *harness) {
			exited(h)
			h.runtime.fail(errors.New("no"))
			if _, err := h.Refresh(h.t.Context(), "u"); err == nil {
				h.t.Error("no error")
			}
			h.runtime.set(podWith(observed.Exited))
		}},
		{"anything may have happened", func(h *harness) {
			refresh(h)
			h.runtime.set(podWith(observed.Exited))
			h.report(anything("u"))
		}},
		{"another caller acts too, and is done before", func(h *harness) {
			other := h.Act("u")
			exited(h)
			other()
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			runEvented(t, []*observed.Pod{podWith(observed.Running)}, func(h *harness) {
				h.wantCurrent("u", podWith(observed.Running), 1)
				done := h.Act("u")
				tt.acts(h)
				h.want()
				h.statuses = h.runtime.statuses
				done()
				h.want(synced)
				h.wantCurrent("u", podWith(observed.Exited), 1)
				h.wantCurrent("u", podWith(observed.Exited), 0)
			})
		})
	}
}

// Events wait while a pod is being changed, but an older reading is never called current meanwhile.
func TestCurrentDuringAnAction(t *testing.T) {
	runEvented(t, nil, func(h *harness) {
		done := h.Act("u")
		h.wantCurrent("u", nil, 0)
		h.runtime.set(podWith(observed.Running))
		h.report(podWith(observed.Running))
		h.wantCurrent("u", podWith(observed.Running), 1)
		h.wantCurrent("u", podWith(observed.Running), 0)
		done()
		h.want()
	})
}

// A relist that found nothing of a pod, because it began before the pod was created, doesn't drop the waiting events.
func TestRelistDuringAnAction(t *testing.T) {
	runEvented(t, []*observed.Pod{podWith(observed.Exited)}, func(h *harness) {
		done := h.Act("u")
		h.runtime.set()
		release := h.runtime.holdList()
		poke(h.hurry)
		h.relist()
		h.runtime.set(podWith(observed.Running))
		h.report(podWith(observed.Running))
		release()
		synctest.Wait()
		h.isReady()
		h.Take()
		done()
		h.want(synced)
		h.wantCurrent("u", podWith(observed.Running), 1)
	})
}

// The kernel's reports don't wait: they may be the only ones.
func TestEndDuringAnAction(t *testing.T) {
	runFollowed(t, []*observed.Pod{process7()}, func(h *harness) {
		done := h.Act("u")
		h.runtime.set(podWith(observed.Exited))
		h.end("c")
		h.want(synced)
		done()
		h.wantCurrent("u", podWith(observed.Exited), 1)
	})
}
