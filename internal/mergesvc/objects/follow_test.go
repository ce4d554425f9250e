package objects

import (
	"fmt"
	"slices"
	"testing"

	"github.com/podstream/podstream/internal/manifest"
)

// TestOfferTouchesWhatIsNew: with many objects, a new reference is offered, and one that ends is dropped,
// without a look at the others.
func TestOfferTouchesWhatIsNew(t *testing.T) {
	pods, h := newHubs(Config{})
	var all []*manifest.Pod
	for i := range 100 {
		all = append(all, user(fmt.Sprint("p", i), "n1", "x", fmt.Sprint("s", i)))
	}
	pods.Apply(set("api", all))
	h.Advance()
	f := &feeder{hub: h.Hub, source: "api"}
	f.offer()
	f.take()
	if len(f.keys) != 100 || !slices.IsSortedFunc(f.keys, manifest.ObjectKey.Compare) {
		t.Fatalf("%d keys are wanted; want 100 in order", len(f.keys))
	}
	s := h.sources["api"]
	for i := range 100 {
		h.Put("api", key(fmt.Sprint("s", i)), secret("x", "1"))
	}
	// This makes a read of any other object return a value that isn't current.
	for _, e := range s.entries {
		e.values[len(e.values)-1].Value = Value{State: Missing}
	}
	pods.Apply(set("api", append(slices.Clone(all[1:]), user("new", "n1", "x", "new"))))
	h.Advance()
	added, removed, _ := h.offer("api")
	if fmt.Sprint(added) != "[Secret default/new]" || len(removed) != 1 || !removed[key("s0")] {
		t.Fatalf("new are %v, gone %v; want the new one, and s0", added, removed)
	}
	f.take()
	if s.reported[key("s0")].State != Unknown || s.phases[key("s0")] != 0 || s.phases[key("new")] != given {
		t.Errorf("s0 is %v, new %v; want the one forgotten and the other followed", s.phases[key("s0")], s.phases[key("new")])
	}
	for i := 1; i < 100; i++ {
		if e := s.entries[key(fmt.Sprint("s", i))]; e.state() != Missing {
			t.Fatalf("%v was looked at, for the sake of others", e.ref)
		}
	}
}

// TestOfferAgain: an object that pods refer to again while the source still follows it is offered once the
// source has stopped.
func TestOfferAgain(t *testing.T) {
	pods, h := newHubs(Config{})
	f := &feeder{hub: h.Hub, source: "api"}
	wanted := func(secrets ...string) string {
		pods.Apply(set("api", []*manifest.Pod{user("web", "n1", "x", secrets...)}))
		h.Advance()
		f.offer()
		return fmt.Sprint(f.keys)
	}
	if got := wanted("a"); got != "[Secret default/a]" {
		t.Fatalf("wanted are %s", got)
	}
	f.take()
	h.Put("api", key("a"), secret("a", "1"))
	if got := wanted(); got != "[]" {
		t.Fatalf("wanted are %s; want none", got)
	}
	if got := wanted("a"); got != "[]" {
		t.Fatalf("wanted are %s; want none until the source has stopped following a", got)
	}
	h.Put("api", key("a"), secret("a", "old"))
	if got := h.Current(everything()).text(); got != "a?" {
		t.Errorf("there is %q; want a unknown, because its last report may be outdated", got)
	}
	f.take()
	if f.offer(); fmt.Sprint(f.keys) != "[Secret default/a]" {
		t.Fatalf("wanted are %v; want a again", f.keys)
	}
	h.Put("api", key("a"), secret("a", "2"))
	// An offer that the source doesn't read leaves nothing behind.
	if got := wanted(); got != "[]" {
		t.Fatalf("wanted are %s; want none", got)
	}
	if got := wanted("a"); got != "[Secret default/a]" {
		t.Errorf("wanted are %s; want a at once, as the source never had it", got)
	}
	if got := h.Current(everything()).text(); got != "a?" {
		t.Errorf("there is %q; want a unknown", got)
	}
}
