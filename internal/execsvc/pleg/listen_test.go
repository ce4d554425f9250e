package pleg

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/execsvc/observed"
)

var synced = Event{UID: "u", Type: PodSync}

// A runtime without events is listed each second, and asked again each minute: it may be another version by then.
func TestWithoutEvents(t *testing.T) {
	run(t, nil, func(h *harness) {
		h.wantLists(1)
		for range 59 {
			h.relist()
			h.wantLists(1)
		}
		h.runtime.watchReturns(nil)
		if h.runtime.watches != 1 {
			t.Fatalf("asked for events %d times within a minute", h.runtime.watches)
		}
		h.relist()
		if h.runtime.watches != 2 {
			t.Fatalf("asked for events %d times after a minute", h.runtime.watches)
		}
		// What happened before it listened is looked for, at once or in a second.
		h.step(time.Second)
		h.lists = h.runtime.lists
		h.step(28 * time.Second)
		h.wantLists(0)
		if n := strings.Count(h.log.String(), "\n"); n != 1 {
			t.Errorf("log %q; want one line", h.log)
		}
	})
}

func TestRelistsAreRareWithEvents(t *testing.T) {
	runEvented(t, nil, func(h *harness) {
		for range 3 {
			h.step(29 * time.Second)
			h.wantLists(0)
			// The period of 30 s is one of 1 s, in which nothing can hurry a relist, and the rest.
			h.relist()
			h.wantLists(1)
			h.relist()
			h.wantLists(0)
			h.step(29*time.Second - time.Nanosecond)
			h.wantLists(0)
			h.step(time.Nanosecond)
			h.wantLists(1)
		}
	})
}

// Without its events the runtime is listed at once, and then each second.
func TestStreamBreaks(t *testing.T) {
	runEvented(t, []*observed.Pod{podWith(observed.Running)}, func(h *harness) {
		h.relist()
		h.wantLists(0)
		h.runtime.watchReturns(errors.New("connection refused"))
		h.runtime.set(podWith(observed.Exited))
		h.runtime.breaks <- errors.New("broken")
		h.step(0)
		h.wantLists(1)
		h.want(Event{UID: "u", Type: ContainerDied, ID: "c"})
		for range 100 {
			h.relist()
			h.wantLists(1)
		}
		// One line for each reason.
		if log := h.log.String(); strings.Count(log, "\n") != 2 || !strings.Contains(log, "broken") || !strings.Contains(log, "refused") {
			t.Errorf("log %q; want 2 lines", log)
		}
	})
}

// Once the runtime listens again, it is listed once more, as something may have happened before, and then rarely.
func TestStreamReturns(t *testing.T) {
	runEvented(t, nil, func(h *harness) {
		h.step(time.Second / 2)
		h.runtime.breaks <- errors.New("broken")
		// The next relist is due in half a second, and the stream is back half a second after that.
		h.step(time.Second / 2)
		h.wantLists(1)
		h.step(time.Second / 2)
		h.wantLists(0)
		h.step(time.Second / 2)
		h.wantLists(1)
		h.step(29 * time.Second)
		h.wantLists(0)
		h.tell(anything("u"))
		h.want(synced)
		if log := h.log.String(); strings.Count(log, "\n") != 2 {
			t.Errorf("log %q; want a line for the end and one for the return", log)
		}
	})
}

// A stream that breaks within a second of a relist has its relist when that second is over.
func TestStreamBreaksAfterARelist(t *testing.T) {
	runEvented(t, nil, func(h *harness) {
		h.runtime.watchReturns(observed.ErrNoEvents)
		h.runtime.breaks <- errors.New("broken")
		h.step(time.Second - time.Nanosecond)
		h.wantLists(0)
		h.step(time.Nanosecond)
		h.wantLists(1)
	})
}

// A stream that can't be begun is tried after pauses that double, and one that stood after a second.
func TestPausesOfTheStream(t *testing.T) {
	run(t, nil, func(h *harness) {
		h.runtime.watchReturns(errors.New("connection refused"))
		h.step(time.Minute)
		watches := h.runtime.watches
		for _, pause := range []time.Duration{60 * time.Second, 60 * time.Second} {
			h.step(pause - time.Nanosecond)
			if h.runtime.watches != watches {
				t.Fatalf("tried before %v were over", pause)
			}
			h.step(time.Nanosecond)
			if watches++; h.runtime.watches != watches {
				t.Fatalf("not tried after %v", pause)
			}
		}
		h.runtime.watchReturns(nil)
		h.step(time.Minute)
		h.runtime.watchReturns(errors.New("connection refused"))
		h.runtime.breaks <- errors.New("broken")
		watches = h.runtime.watches
		h.step(0)
		for _, pause := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
			h.step(time.Duration(pause)*time.Second - time.Nanosecond)
			if h.runtime.watches != watches {
				t.Fatalf("tried before %d s were over", pause)
			}
			h.step(time.Nanosecond)
			if watches++; h.runtime.watches != watches {
				t.Fatalf("not tried after %d s", pause)
			}
		}
	})
}

// A runtime that can't be listed is tried again soon, whatever its events do.
func TestListFailsWithEvents(t *testing.T) {
	runEvented(t, nil, func(h *harness) {
		h.runtime.fail(errors.New("no"))
		h.step(30 * time.Second)
		h.wantLists(1)
		for range 3 {
			h.relist()
			h.wantLists(1)
		}
		h.runtime.set()
		h.relist()
		h.relist()
		h.wantLists(1)
	})
}

func TestEventWakes(t *testing.T) {
	runEvented(t, []*observed.Pod{podWith(observed.Running)}, func(h *harness) {
		h.wantCurrent("u", podWith(observed.Running), 1)
		h.runtime.set(podWith(observed.Exited))
		h.tell(anything("u"))
		h.want(synced)
		h.wantCurrent("u", podWith(observed.Exited), 1)
		h.wantCurrent("u", podWith(observed.Exited), 0)
		// The reading told all that a relist could.
		h.step(30 * time.Second)
		h.wantLists(1)
		h.want()
	})
}

// Events of one pod that wait are one event, and need one reading; of several pods, one each, in order.
func TestDoubledEvents(t *testing.T) {
	runEvented(t, []*observed.Pod{podWith(observed.Running)}, func(h *harness) {
		h.tell(anything("u"), anything("u"), anything("v"), anything("u"), anything("v"))
		h.want(synced, Event{UID: "v", Type: PodSync})
		h.wantCurrent("u", podWith(observed.Running), 1)
		h.wantCurrent("u", podWith(observed.Running), 0)
		h.tell(anything("u"))
		h.want(synced)
		h.wantCurrent("u", podWith(observed.Running), 1)
	})
}

// An event that comes late, after what it is about was seen to be otherwise, changes nothing.
func TestReorderedEvents(t *testing.T) {
	runEvented(t, []*observed.Pod{podWith(observed.Running)}, func(h *harness) {
		h.wantCurrent("u", podWith(observed.Running), 1)
		h.runtime.set()
		h.tell(anything("u"))
		h.want(synced)
		h.wantCurrent("u", nil, 1)
		if pod := h.Get("u"); pod != nil {
			t.Errorf("Get has %+v of a pod that has gone", pod)
		}
		// That it was started comes after that it was removed.
		h.tell(anything("u"))
		h.want(synced)
		h.wantCurrent("u", nil, 1)
		h.step(30 * time.Second)
		h.want()
		h.wantCurrent("u", nil, 0)
		h.wantPods(podStates{})
	})
}

// What no event told of is found by the next relist.
func TestLostEvent(t *testing.T) {
	runEvented(t, []*observed.Pod{podWith(observed.Running)}, func(h *harness) {
		h.wantCurrent("u", podWith(observed.Running), 1)
		h.runtime.set(podWith(observed.Exited))
		h.step(30*time.Second - time.Nanosecond)
		h.want()
		h.step(time.Nanosecond)
		h.want(Event{UID: "u", Type: ContainerDied, ID: "c"})
		h.wantCurrent("u", podWith(observed.Exited), 1)
	})
}

// An event that doesn't say whose it is may be anybody's.
func TestEventOfNobody(t *testing.T) {
	runEvented(t, []*observed.Pod{podWith(observed.Running)}, func(h *harness) {
		h.relist()
		h.runtime.set(podWith(observed.Exited))
		h.tell(nil)
		h.wantLists(1)
		h.want(Event{UID: "u", Type: ContainerDied, ID: "c"})
		// A storm of them is a relist a second.
		h.tell(nil, nil, nil)
		h.wantLists(0)
		h.relist()
		h.wantLists(1)
		if n := strings.Count(h.log.String(), "\n"); n > 0 {
			t.Errorf("log %q; want nothing", h.log)
		}
	})
}

// Ready means that the runtime has been listed, so an event that comes before that has to wait.
func TestEventBeforeTheFirstList(t *testing.T) {
	run(t, nil, func(h *harness) {
		p := New(Config{Runtime: h.runtime, Clock: h.clock})
		p.hear(anything("u"))
		if len(p.Ready()) > 0 {
			t.Error("ready before the first relist")
		}
		p.relist(h.t.Context())
		if events := p.Take(); len(p.Ready()) == 0 || len(events) != 1 || events[0] != synced {
			t.Errorf("ready %d, events %v after the first relist", len(p.Ready()), events)
		}
	})
}
