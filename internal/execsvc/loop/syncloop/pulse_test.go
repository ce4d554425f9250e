package syncloop

import (
	"testing"
	"time"

	"github.com/podstream/podstream/client"
)

// wantPulse asks for a sign of progress, and checks whether there is one within a minute.
func (h *harness) wantPulse(when string, want bool) {
	h.t.Helper()
	answer := make(chan struct{})
	got := false
	select {
	case h.pulses <- answer:
		<-answer
		got = true
	case <-time.After(time.Minute):
	}
	if got != want {
		h.t.Errorf("%s: the loop answers=%v; want %v", when, got, want)
	}
}

// TestPulse: the loop itself answers, also while nothing happens, and not while a handler hangs.
func TestPulse(t *testing.T) {
	run(t, func(h *harness) {
		h.wantPulse("before the first relist", true)
		h.listed()
		h.wantPulse("while it is idle", true)
		h.handler.hold = make(chan struct{})
		done := h.deliver(h.t.Context(), client.Event{Ops: []client.Change{change(client.Add, "file", true, "a")}})
		h.wantPulse("while a handler hangs", false)
		close(h.handler.hold)
		h.wantDone(done, nil)
		h.want("add default/pod-a=a", "sources file=true complete=false")
		h.wantPulse("after that", true)
		h.cancel()
		h.wantPulse("at its end", false)
	})
}

// TestAnswer: a handler with much to do answers in between, and doesn't wait if nothing is asked.
func TestAnswer(t *testing.T) {
	run(t, func(h *harness) {
		h.listed()
		h.handler.add = func() {
			h.Answer()
			<-h.handler.hold
			h.Answer()
		}
		h.handler.hold = make(chan struct{})
		done := h.deliver(h.t.Context(), client.Event{Ops: []client.Change{change(client.Add, "file", true, "a")}})
		answer := make(chan struct{})
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			h.pulses <- answer
		}()
		h.wantPending(done)
		close(h.handler.hold)
		<-asked
		<-answer
		h.wantDone(done, nil)
	})
}
