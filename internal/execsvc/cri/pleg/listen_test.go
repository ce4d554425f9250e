package pleg

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

var synced = Event{UID: "u", Type: PodSync}

// A runtime without events is listed each second, and its events are requested again each minute: it may have been
// upgraded.
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
		// Changes before the stream was opened are read, at once or in a second.
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

// When its events end, the runtime is listed at once, and then each second.
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

// Once the stream is open again, the runtime is listed once more, because events may have been missed, and then rarely.
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
		h.report(anything("u"))
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

// A stream that can't be opened is retried after pauses that double, and one that was open after a second.
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
		h.report(anything("u"))
		h.want(synced)
		h.wantCurrent("u", podWith(observed.Exited), 1)
		h.wantCurrent("u", podWith(observed.Exited), 0)
		// The reading was as complete as a relist.
		h.step(30 * time.Second)
		h.wantLists(1)
		h.want()
	})
}

// Waiting events of one pod are one event, and need one reading; of several pods, one each, in order.
func TestDoubledEvents(t *testing.T) {
	runEvented(t, []*observed.Pod{podWith(observed.Running)}, func(h *harness) {
		h.report(anything("u"), anything("u"), anything("v"), anything("u"), anything("v"))
		h.want(synced, Event{UID: "v", Type: PodSync})
		h.wantCurrent("u", podWith(observed.Running), 1)
		h.wantCurrent("u", podWith(observed.Running), 0)
		h.report(anything("u"))
		h.want(synced)
		h.wantCurrent("u", podWith(observed.Running), 1)
	})
}

// An event that arrives late, after a newer state was read, changes nothing.
func TestReorderedEvents(t *testing.T) {
	runEvented(t, []*observed.Pod{podWith(observed.Running)}, func(h *harness) {
		h.wantCurrent("u", podWith(observed.Running), 1)
		h.runtime.set()
		h.report(anything("u"))
		h.want(synced)
		h.wantCurrent("u", nil, 1)
		if pod := h.Get("u"); pod != nil {
			t.Errorf("Get has %+v of a pod that has gone", pod)
		}
		// The event of the start comes after that of the removal.
		h.report(anything("u"))
		h.want(synced)
		h.wantCurrent("u", nil, 1)
		h.step(30 * time.Second)
		h.want()
		h.wantCurrent("u", nil, 0)
		h.wantPods(podStates{})
	})
}

// A change without an event is found by the next relist.
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

// An event without a pod may be of any pod.
func TestEventWithoutPod(t *testing.T) {
	runEvented(t, []*observed.Pod{podWith(observed.Running)}, func(h *harness) {
		h.relist()
		h.runtime.set(podWith(observed.Exited))
		h.report(nil)
		h.wantLists(1)
		h.want(Event{UID: "u", Type: ContainerDied, ID: "c"})
		// Many of them cause one relist a second.
		h.report(nil, nil, nil)
		h.wantLists(0)
		h.relist()
		h.wantLists(1)
		if n := strings.Count(h.log.String(), "\n"); n > 0 {
			t.Errorf("log %q; want nothing", h.log)
		}
	})
}

// Ready means that the runtime has been listed, so an event before that has to wait.
func TestEventBeforeTheFirstList(t *testing.T) {
	run(t, nil, func(h *harness) {
		p := New(Config{Runtime: h.runtime, Clock: h.clock})
		p.receive(anything("u"))
		if len(p.Ready()) > 0 {
			t.Error("ready before the first relist")
		}
		p.relist(h.t.Context())
		if events := p.Take(); len(p.Ready()) == 0 || len(events) != 1 || events[0] != synced {
			t.Errorf("ready %d, events %v after the first relist", len(p.Ready()), events)
		}
	})
}
