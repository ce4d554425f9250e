package service_test

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// known returns the known pods of a consumer that applied the units.
func known(units ...unit) []*podconfigv1.KnownPod {
	var out []*podconfigv1.KnownPod
	for _, u := range units {
		for _, p := range u.pods() {
			out = append(out, &podconfigv1.KnownPod{
				Uid: p.GetRef().GetUid(), Source: p.GetSource(), SpecDigest: p.GetSpecDigest(), StatusDigest: p.GetStatusDigest(),
			})
		}
	}
	return out
}

// TestG7ExactHistory checks G7's first step: from a cursor in the history, each revision is sent.
func TestG7ExactHistory(t *testing.T) {
	n := start(t, options{revisions: 3})
	at := n.watch(reference(nil)).want("synced").cursor
	n.set("file", "a: web()")
	n.set("file", "a: web(image=2)")
	n.set("file", "a:")
	s := n.watch(reference(at))
	s.want("ADD file: web")
	s.want("UPDATE file: web")
	s.want("REMOVE file: web")
	s.want("synced")
}

// TestG7Coalesced checks G7's second step: from a cursor that is no longer in the history, one op for each pod
// is sent, and then live revisions.
func TestG7Coalesced(t *testing.T) {
	n := start(t, options{revisions: 2})
	first := n.watch(reference(nil))
	first.want("synced")
	n.set("file", "a: same() changed() gone() again()")
	at := first.unit().cursor
	n.set("file", "a: same() changed(image=2) again()")
	n.set("file", "a: same() changed(image=3)")
	n.set("file", "a: same() changed(image=4) new() again()")
	n.set("api", "")
	s := n.watch(reference(at))
	u := s.want("REMOVE file: gone again", "ADD file: again new", "UPDATE file: changed", "ADD api:")
	if got, want := u.cursor.GetRevision(), uint64(5); got != want {
		t.Errorf("the catch-up ends at revision %d; want %d", got, want)
	}
	for _, m := range u.messages {
		if m.GetUpdate().GetObservedTime() != nil {
			t.Errorf("%v has an observed_time; want none in a catch-up", m.GetUpdate().GetOp())
		}
	}
	s.want("synced")
	n.set("file", "a: same()")
	s.want("REMOVE file: changed new again")
}

// TestG7SetAfterTombstones checks G7's last step: if tombstones were dropped, a SET has the whole state. It is
// one unit with synced, which has the sources whose missing pods are gone.
func TestG7SetAfterTombstones(t *testing.T) {
	n := start(t, options{revisions: 1, tombstones: 1})
	s := n.watch(reference(nil))
	s.want("synced")
	n.set("file", "a: keep() b() c()")
	at := s.want("ADD file: keep b c").cursor
	n.set("file", "a: keep()")
	n.set("api", "")
	resumed := n.watch(reference(at))
	resumed.want("SET file: keep", "ADD api:", "synced")
	n.set("api", "x: new()")
	resumed.want("ADD api: new")
}

// TestG7AnotherInstance checks G7's third step: podconfigd restarts under another instance ID, and a consumer
// with known pods receives the difference. Its pods of a source that hasn't been read yet are neither removed
// nor sent again.
func TestG7AnotherInstance(t *testing.T) {
	before := start(t, options{})
	s := before.watch(reference(nil))
	s.want("synced")
	before.set("file", "a: f-same() f-changed() f-gone()")
	u1 := s.want("ADD file: f-same f-changed f-gone")
	before.set("api", "x: a-same() a-changed() a-stat() a-gone()")
	u2 := s.want("ADD api: a-same a-changed a-stat a-gone")
	before.stop()

	now := start(t, options{})
	now.set("api", "x: a-same() a-changed(image=2) a-stat(phase=Running) a-new()")
	s = now.watch(reference(u2.cursor, known(u1, u2)...))
	s.want("REMOVE api: a-gone", "ADD api: a-new", "UPDATE api: a-changed", "RECONCILE api: a-stat")
	synced := s.want("synced")
	if synced.cursor.GetInstanceId() == u2.cursor.GetInstanceId() {
		t.Error("the new instance has the old one's id; want another")
	}
	// Later file is ready, too.
	now.set("file", "a: f-same() f-changed(image=2) f-new()")
	s.want("REMOVE file: f-gone", "ADD file: f-new", "UPDATE file: f-changed")
	now.set("file", "a: f-same(image=3)")
	s.want("REMOVE file: f-changed f-new", "UPDATE file: f-same")
}

// TestG7AnotherInstanceAndBack: the stream breaks between the difference and the reading of the last source.
// The consumer's cursor can then be resumed from, and undecided pods stay undecided.
func TestG7AnotherInstanceAndBack(t *testing.T) {
	before := start(t, options{})
	s := before.watch(reference(nil))
	s.want("synced")
	before.set("file", "a: same() gone()")
	u := s.want("ADD file: same gone")

	now := start(t, options{})
	s = now.watch(reference(u.cursor, known(u)...))
	at := s.want("synced").cursor
	s.cancel()
	s = now.watch(reference(at, known(u)...))
	s.want("synced")
	now.set("file", "a: same()")
	s.want("REMOVE file: gone", "ADD file:")
	s.cancel()
	// The same for a consumer that connects after all of it.
	s = now.watch(reference(at, known(u)...))
	s.want("REMOVE file: gone", "ADD file:")
	s.want("synced")
}

// TestG7NothingChanged: the consumer has the current state, so nothing is sent before synced (G5).
func TestG7NothingChanged(t *testing.T) {
	before := start(t, options{})
	s := before.watch(reference(nil))
	s.want("synced")
	before.set("file", "a: web()")
	u := s.unit()
	now := start(t, options{})
	s = now.watch(reference(u.cursor, known(u)...))
	s.want("synced")
	now.set("file", "a: web()")
	s.want("ADD file:")
}

// TestG7CursorsThatCantBeHonoured checks the rest of G7: such a cursor is never an error. A SET is sent, or,
// with known pods, the difference.
func TestG7CursorsThatCantBeHonoured(t *testing.T) {
	n := start(t, options{})
	n.set("file", "a: web()")
	s := n.watch(reference(nil))
	u := s.unit()
	own := s.want("synced").cursor
	change := func(f func(*podconfigv1.Cursor)) *podconfigv1.Cursor {
		c := proto.CloneOf(own)
		f(c)
		return c
	}
	for name, cursor := range map[string]*podconfigv1.Cursor{
		"of another instance": change(func(c *podconfigv1.Cursor) { c.InstanceId = "other" }),
		"from the future":     change(func(c *podconfigv1.Cursor) { c.Revision = 1 << 60 }),
		"of another view":     change(func(c *podconfigv1.Cursor) { c.View = "other" }),
		"empty":               {},
	} {
		t.Run(name, func(t *testing.T) {
			s := n.watch(reference(cursor))
			if set := s.want("SET file: web", "synced"); !proto.Equal(set.cursor, own) {
				t.Errorf("the SET has cursor %v; want %v", set.cursor, own)
			}
			s.cancel()
			s = n.watch(reference(cursor, known(u)...))
			s.want("synced")
			s.cancel()
			s = n.watch(reference(cursor, &podconfigv1.KnownPod{Uid: "old", Source: "file"}, &podconfigv1.KnownPod{Uid: "wait", Source: "api"}))
			s.want("REMOVE file: old", "ADD file: web")
			s.want("synced")
			s.cancel()
		})
	}
	t.Run("nothing is served", func(t *testing.T) {
		s := start(t, options{}).watch(reference(own))
		s.want("SET file:", "synced")
	})
}

// TestG7BehindForEver: a consumer that resumes while revisions are published receives its synced, at the state
// of its start or a later one, and misses nothing (G2).
func TestG7BehindForEver(t *testing.T) {
	n := start(t, options{revisions: 16})
	at := n.watch(reference(nil)).want("synced").cursor
	const sets = 300
	published := make(chan struct{})
	go func() {
		defer close(published)
		for i := range sets {
			n.set("file", fmt.Sprintf("a: web(image=%d)", i))
		}
	}()
	s := n.watch(reference(at))
	for last, synced := uint64(0), false; last < sets || !synced; {
		u := s.unit()
		switch got := u.cursor.GetRevision(); {
		case u.synced != nil && got != last:
			t.Fatalf("synced at revision %d; want %d, which was sent last", got, last)
		case u.synced == nil && got <= last:
			t.Fatalf("revision %d comes after %d; want a higher one (G1)", got, last)
		default:
			last, synced = got, synced || u.synced != nil
		}
	}
	<-published
}

// TestG7CursorOlderThanTheTombstones: if tombstones since a cursor were dropped, known pods are compared;
// without them there is a SET.
func TestG7CursorOlderThanTheTombstones(t *testing.T) {
	n := start(t, options{revisions: 1, tombstones: 1})
	s := n.watch(reference(nil))
	s.want("synced")
	n.set("file", "a: same() gone1() gone2() gone3()")
	u := s.want("ADD file: same gone1 gone2 gone3")
	s.cancel()
	n.set("file", "a: same() gone2() gone3()")
	n.set("file", "a: same() gone3()")
	n.set("file", "a: same() new()")
	again := n.watch(reference(u.cursor, known(u)...))
	again.want("REMOVE file: gone1 gone2 gone3", "ADD file: new")
	again.want("synced")
	without := n.watch(reference(u.cursor))
	without.want("SET file: new same", "synced")
}
