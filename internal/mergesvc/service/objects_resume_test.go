package service_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestObjectsResumeExactly: a stream that resumes from any cursor of a history receives exactly the units after
// it.
func TestObjectsResumeExactly(t *testing.T) {
	n := startObjects(t, 0, options{})
	live := n.watchObjects(&podconfigv1.WatchObjectsRequest{})
	first := live.want("SET", "synced file? api?")
	n.apply("api")
	live.want("heartbeat file? api")
	n.apply("file")
	at := live.want("heartbeat file api").cursor
	if at.GetRevision() <= first.cursor.GetRevision() {
		t.Fatalf("the heartbeats lead from %v to %v; want further", first.cursor, at)
	}
	units := []objectUnit{{cursor: at}}
	for i, origins := range [][]any{
		{user("web", "n1", "cm/a"), object("cm/a", "1")}, {user("web", "n1", "cm/a"), object("cm/a", "2")}, {user("web", "n1", "cm/a")},
		{user("web", "n1", "cm/a", "cm/b"), object("cm/b", "1")}, {user("web", "n1", "cm/b"), object("cm/b", "1")}, {},
	} {
		n.apply("file", from(fmt.Sprint(i), origins...))
		units = append(units, live.unit())
	}
	for i, u := range units {
		s := n.watchObjects(resumed(u.cursor))
		for _, want := range units[i+1:] {
			if got := s.want(want.String()); !proto.Equal(got.cursor, want.cursor) {
				t.Errorf("after unit %d: the cursor is %v; want %v", i, got.cursor, want.cursor)
			}
		}
		if got := s.want("synced file api").cursor; !proto.Equal(got, units[len(units)-1].cursor) {
			t.Errorf("after unit %d: synced at %v; want %v", i, got, units[len(units)-1].cursor)
		}
		s.cancel()
	}
}

// TestObjectsResumeByKnown: without a valid cursor (of another instance, another view, from the future, or
// none), the catch-up uses the consumer's known objects, or else a SET.
func TestObjectsResumeByKnown(t *testing.T) {
	n := startObjects(t, 0, options{})
	n.apply("file", from("a", user("web", "n1", "cm/same", "cm/changed", "cm/gone", "cm/absent", "cm/new"),
		object("cm/same", "1"), object("cm/changed", "2"), object("cm/new", "1")))
	n.apply("api")
	here := n.watchObjects(&podconfigv1.WatchObjectsRequest{}).want(
		"SET cm/changed=2 cm/new=1 cm/same=1", "MISSING cm/absent cm/gone", "synced file api").cursor
	held := heldObjects("cm/same=1", "cm/changed=1", "cm/gone=1", "cm/absent", "cm/unused=1", "http:cm/x=1")
	other, elsewhere, future := proto.CloneOf(here), proto.CloneOf(here), proto.CloneOf(here)
	other.InstanceId, elsewhere.View, future.Revision = "another life", "another view", here.GetRevision()+1
	for name, cursor := range map[string]*podconfigv1.Cursor{
		"no cursor": nil, "another instance": other, "another view": elsewhere, "from the future": future,
	} {
		t.Run(name, func(t *testing.T) {
			n.watchObjects(resumed(cursor, held...)).want(
				"REMOVE cm/unused http:cm/x", "PUT cm/changed=2 cm/new=1", "MISSING cm/gone", "synced file api")
			n.watchObjects(resumed(cursor)).want(
				"SET cm/changed=2 cm/new=1 cm/same=1", "MISSING cm/absent cm/gone", "synced file api")
			n.watchObjects(resumed(cursor, heldObjects("cm/same=1", "cm/changed=2", "cm/new=1", "cm/gone", "cm/absent")...)).want("synced file api")
		})
	}
	// With a valid cursor, the objects that are visible at it are as of the cursor, and the others are removed.
	again := n.watchObjects(resumed(here, held...))
	again.want("REMOVE cm/unused http:cm/x")
	again.want("synced file api")
	n.watchObjects(resumed(here, held[:4]...)).want("synced file api")
}

// TestObjectsUndecided: after a restart the consumer keeps undecided objects, and receives the difference when
// they are decided.
func TestObjectsUndecided(t *testing.T) {
	n := startObjects(t, 0, options{})
	held := heldObjects("api:cm/same=1", "api:cm/changed=1", "api:cm/gone=1", "api:cm/absent", "api:cm/unused=1", "cm/unused=1")
	s := n.watchObjects(resumed(nil, held...))
	undecided := s.want("synced file? api?")
	n.apply("file")
	s.want("REMOVE cm/unused", "heartbeat file api?")
	n.apply("api", from("x", user("x", "n1", "cm/same", "cm/changed", "cm/gone", "cm/absent", "cm/new")))
	decided := s.want("REMOVE api:cm/unused")
	// For a consumer that resumes meanwhile they are undecided too, by exact history and by known objects.
	resumedEarly := n.watchObjects(resumed(undecided.cursor, held...))
	resumedEarly.want("REMOVE cm/unused")
	resumedEarly.want("REMOVE api:cm/unused")
	resumedEarly.want("synced file api?")
	byKnown := n.watchObjects(resumed(nil, held[:4]...))
	byKnown.want("synced file api?")
	if decided.cursor.GetRevision() <= undecided.cursor.GetRevision() {
		t.Errorf("revision %d comes after %d", decided.cursor.GetRevision(), undecided.cursor.GetRevision())
	}
	api := n.follow("api")
	api.want("cm/absent", "cm/changed", "cm/gone", "cm/new", "cm/same")
	api.report("cm/same", "1")
	api.miss("cm/absent")
	api.report("cm/changed", "2")
	api.miss("cm/gone")
	api.report("cm/new", "1")
	for _, s := range []*objectStream{s, resumedEarly, byKnown} {
		s.want("PUT api:cm/changed=2")
		s.want("MISSING api:cm/gone")
		s.want("PUT api:cm/new=1", "heartbeat file api")
	}
}

// TestObjectsFellBehind: a consumer that doesn't read until its position has left the ring receives the whole
// state, and the readiness of sources.
func TestObjectsFellBehind(t *testing.T) {
	n := startObjects(t, 3, options{})
	big := func(i int) any { return object("cm/a", strings.Repeat(fmt.Sprint(i%10), 900<<10)) }
	web := user("web", "n1", "cm/a")
	n.apply("file", from("a", web, big(0)))
	s := n.watchObjects(&podconfigv1.WatchObjectsRequest{})
	s.unit()
	for i := range 50 {
		n.apply("file", from("a", web, big(i)))
	}
	n.apply("file", from("a", web, object("cm/a", "last")))
	var last objectUnit
	for !strings.Contains(last.String(), "cm/a=last") {
		last = s.unit()
	}
	if got, want := last.String(), "SET cm/a=last\nsynced file api?"; got != want {
		t.Errorf("at the end comes\n%s\nwant\n%s", got, want)
	}
	// A cursor from before isn't an error either.
	old := proto.CloneOf(last.cursor)
	old.Revision = 1
	n.watchObjects(resumed(old, heldObjects("cm/a=last")...)).want("synced file api?")
}
