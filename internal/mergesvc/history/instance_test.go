package history_test

import (
	"testing"

	"github.com/podstream/podstream/internal/mergesvc/history"
)

// TestKnows: numbers of the store's instance, and of every instance since the start, have the same meaning as those
// of the current one.
func TestKnows(t *testing.T) {
	h := history.New(history.Config{Instance: history.Instance{ID: "now"}, Start: history.Start{Instance: "stored", Number: 7}})
	wantKnown := func(when string, instances ...string) {
		t.Helper()
		for _, i := range instances {
			if !h.Knows(i) {
				t.Errorf("%s the instance %q isn't known; want it known", when, i)
			}
		}
		for _, i := range []string{"", "other"} {
			if h.Knows(i) {
				t.Errorf("%s the instance %q is known; want it unknown", when, i)
			}
		}
	}
	wantKnown("at the start", "stored", "now")
	h.Begin(history.Instance{ID: "temporary", Temporary: true})
	wantKnown("after another instance has begun", "stored", "now", "temporary")
	h.Begin(history.Instance{ID: "later"})
	h.Begin(history.Instance{ID: "now"})
	wantKnown("after others", "stored", "now", "temporary", "later")
	if got := h.Instance(); got != (history.Instance{ID: "now"}) {
		t.Errorf("the instance is %+v; want that which began last", got)
	}
}

// TestStatesHaveTheInstance: a State has the Instance of the time of the call, even one of the past, and even if an equal one
// was made before.
func TestStatesHaveTheInstance(t *testing.T) {
	p := newPublisher(history.Config{})
	p.set(t, "file", "a: web()")
	p.set(t, "file", "a: web(image=2)")
	wantInstance := func(want history.Instance) {
		t.Helper()
		if got := p.State().Instance; got != want {
			t.Errorf("the current state has the instance %+v; want %+v", got, want)
		}
		for number := uint64(1); number <= 2; number++ {
			st, ok := p.StateAt(number)
			if !ok || st.Instance != want || st.Number != number {
				t.Errorf("the state at %d is of revision %d and has the instance %+v, %v; want %+v", number, st.Number, st.Instance, ok, want)
			}
		}
	}
	wantInstance(history.Instance{ID: "life"})
	wantInstance(history.Instance{ID: "life"})
	temporary := history.Instance{ID: "temporary", Temporary: true}
	p.Begin(temporary)
	wantInstance(temporary)
	p.Begin(history.Instance{ID: "life"})
	wantInstance(history.Instance{ID: "life"})
}

// TestStatesAreDropped: a State of a revision that isn't kept any more isn't returned, though it was made before.
func TestStatesAreDropped(t *testing.T) {
	p := newPublisher(history.Config{Revisions: 2})
	p.set(t, "file", "a: web(image=1)")
	p.set(t, "file", "a: web(image=2)")
	if _, ok := p.StateAt(1); !ok {
		t.Fatal("the state at 1 isn't kept; want it")
	}
	for _, image := range []string{"3", "4"} {
		p.set(t, "file", "a: web(image="+image+")")
	}
	if _, ok := p.StateAt(1); ok {
		t.Error("the state at 1 is kept after its revisions have gone; want it dropped")
	}
	if st, ok := p.StateAt(2); !ok || st.Number != 2 || len(st.Pods) != 1 {
		t.Errorf("the state at 2 is %+v, %v; want it kept", st, ok)
	}
}
