package pleg

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/podstream/podstream/internal/execsvc/observed"
)

// What an action brings about is told of while it goes on and a little later. The one reading after it shows all that.
func TestOwnActionIsReadOnce(t *testing.T) {
	runEvented(t, nil, func(h *harness) {
		done := h.Act("u")
		h.tell(podWith(observed.Created))
		h.runtime.set(podWith(observed.Running))
		h.tell(podWith(observed.Running))
		if _, err := h.Refresh(t.Context(), "u"); err != nil {
			t.Fatal(err)
		}
		done()
		h.tell(podWith(observed.Created), podWith(observed.Running))
		h.want()
		h.wantStatuses(1)
		h.wantCurrent("u", podWith(observed.Running), 0)
		// What happens next is news.
		h.runtime.set(podWith(observed.Exited))
		h.tell(podWith(observed.Exited))
		h.want(synced)
		h.wantCurrent("u", podWith(observed.Exited), 1)
	})
}

// What the reading after an action doesn't show has the pod read again: nothing of it may be lost.
func TestNewsDuringAnAction(t *testing.T) {
	refresh := func(h *harness) {
		if _, err := h.Refresh(h.t.Context(), "u"); err != nil {
			h.t.Error(err)
		}
	}
	exited := func(h *harness) {
		h.runtime.set(podWith(observed.Exited))
		h.tell(podWith(observed.Exited))
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
			h.tell(anything("u"))
		}},
		{"somebody else acts too, and is done before", func(h *harness) {
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

// Events wait, and what they tell of doesn't: whoever asks while somebody acts is never told that an older reading is current.
func TestCurrentDuringAnAction(t *testing.T) {
	runEvented(t, nil, func(h *harness) {
		done := h.Act("u")
		h.wantCurrent("u", nil, 0)
		h.runtime.set(podWith(observed.Running))
		h.tell(podWith(observed.Running))
		h.wantCurrent("u", podWith(observed.Running), 1)
		h.wantCurrent("u", podWith(observed.Running), 0)
		done()
		h.want()
	})
}

// A relist that found nothing of a pod, as it came before the pod was made, takes nothing away of what waits.
func TestRelistDuringAnAction(t *testing.T) {
	runEvented(t, []*observed.Pod{podWith(observed.Exited)}, func(h *harness) {
		done := h.Act("u")
		h.runtime.set()
		release := h.runtime.holdList()
		poke(h.hurry)
		h.relist()
		h.runtime.set(podWith(observed.Running))
		h.tell(podWith(observed.Running))
		release()
		synctest.Wait()
		h.isReady()
		h.Take()
		done()
		h.want(synced)
		h.wantCurrent("u", podWith(observed.Running), 1)
	})
}

// The kernel's word doesn't wait: nobody else may give it.
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
