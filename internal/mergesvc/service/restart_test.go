package service_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/internal/manifest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestG6Restart checks G6: podconfigd is killed, and its sources are unchanged. A consumer that resumes
// receives no op on a pod, under the same instance ID. Each source reports once that it is ready. Revisions
// continue, and UIDs and first-seen times stay.
func TestG6Restart(t *testing.T) {
	path := newStore(t)
	before := start(t, stored(path))
	live := before.watch(reference(nil))
	live.want("synced")
	before.set("file", "a: web() db(phase=Running)")
	live.want("ADD file: web db")
	before.set("api", "x: api()")
	live.want("ADD api: api")
	before.set("file", "a: web() db(phase=Running) late()")
	at := live.want("ADD file: late").cursor
	seen := before.seen()

	now := start(t, stored(killed(t, path)))
	now.second = 1000
	resumed := now.watch(reference(at))
	if synced := resumed.want("synced"); !proto.Equal(synced.cursor, at) {
		t.Errorf("synced at %v; want %v, where the consumer was", synced.cursor, at)
	} else if synced.synced.GetSources()[0].GetReady() {
		t.Error("file is ready; want it unready, because it hasn't delivered a set")
	}
	if got := now.stale(); got != "api db late web" {
		t.Errorf("stale are %q; want all", got)
	}
	fresh := now.watch(reference(nil))
	restored := fresh.want("RESTORE file: db late web", "RESTORE api: api")
	for _, p := range restored.pods() {
		if !p.GetStale() {
			t.Errorf("pod %s isn't stale; want it so in a RESTORE", p.GetRef().GetUid())
		}
	}
	fresh.want("synced")
	for i, tc := range []struct{ source, set, stale string }{
		{"file", "a: web() db(phase=Running) late()", "api"},
		{"api", "x: api()", ""},
	} {
		now.set(tc.source, tc.set)
		for _, s := range []*stream{resumed, fresh} {
			u := s.want("ADD " + tc.source + ":")
			if want := at.GetRevision() + uint64(i) + 1; u.cursor.GetInstanceId() != at.GetInstanceId() || u.cursor.GetRevision() != want {
				t.Errorf("%s is ready at %v; want revision %d of the same instance", tc.source, u.cursor, want)
			}
		}
		if got := now.stale(); got != tc.stale {
			t.Errorf("once %s is ready, stale are %q; want %q", tc.source, got, tc.stale)
		}
	}
	now.set("file", "a: web() db(phase=Running) late()")
	now.set("file", "a: web() db(phase=Running) late() new()")
	resumed.want("ADD file: new")
	got := now.seen()
	for uid, want := range seen {
		if got[uid] != want {
			t.Errorf("pod %s is first seen at %q; want %q, as before", uid, got[uid], want)
		}
	}
	if !strings.HasPrefix(got["new"], "1970-01-01T00:16:") {
		t.Errorf("the new pod is first seen at %q; want the time of this life", got["new"])
	}
}

// TestG6ChangesWhileDown: changes while podconfigd was down arrive as the ops that a consumer needs, whether it
// resumes or received the stored pods.
func TestG6ChangesWhileDown(t *testing.T) {
	path := newStore(t)
	before := start(t, stored(path))
	before.set("api", "")
	live := before.watch(reference(nil))
	live.want("synced")
	before.set("file", "a: same() changed() stat() gone() moves()")
	at := live.want("ADD file: same changed stat gone moves").cursor

	now := start(t, stored(killed(t, path)))
	resumed, fresh := now.watch(reference(at)), now.watch(reference(nil))
	resumed.want("synced")
	fresh.want("RESTORE file: changed gone moves same stat")
	fresh.want("synced")
	now.set("file", "a: same() changed(image=2) stat(phase=Running) new()\nb: moves()")
	for _, s := range []*stream{resumed, fresh} {
		s.want("REMOVE file: gone", "ADD file: new", "UPDATE file: changed", "RECONCILE file: stat")
	}
	if got := now.stale(); got != "" {
		t.Errorf("stale are %q; want none", got)
	}
}

// TestG9StoreRemovesNothing: a stored pod is never removed before its source was read. A reading of another
// source, or an error, doesn't remove it.
func TestG9StoreRemovesNothing(t *testing.T) {
	path := newStore(t)
	before := start(t, stored(path))
	before.set("file", "a: f()")
	before.set("api", "x: a1() a2()")
	now := start(t, stored(killed(t, path)))
	s := now.watch(reference(nil))
	s.want("RESTORE file: f", "RESTORE api: a1 a2")
	s.want("synced")
	now.hub.Apply(manifest.Set{Source: "api", Err: errors.New("etcd is down")})
	now.set("file", "")
	s.want("REMOVE file: f", "ADD file:")
	if got := now.stale(); got != "a1 a2" {
		t.Errorf("stale are %q; want the pods of api", got)
	}
	// The state wasn't complete, so the fresh consumer receives each pod as its source has it.
	now.set("file", "a: new()")
	s.want("ADD file: new")
	fresh := now.watch(reference(nil))
	fresh.want("ADD file: new", "RESTORE api: a1 a2")
	now.set("api", "x: a2()")
	s.want("REMOVE api: a1", "ADD api:")
}

// TestG6FormerSource: pods of a source that is no longer configured stay until all configured ones were read,
// because one of them may have these pods.
func TestG6FormerSource(t *testing.T) {
	path := newStore(t)
	before := start(t, stored(path, "file", "api"))
	before.set("file", "a: f()")
	before.set("api", "x: moved() dropped()")
	now := start(t, stored(killed(t, path), "file", "http"))
	s := now.watch(reference(nil))
	s.want("RESTORE file: f", "RESTORE api: dropped moved")
	s.want("synced")
	now.set("file", "a: f()")
	s.want("ADD file:")
	now.set("http", "x: moved()")
	s.want("REMOVE api: dropped moved", "ADD http: moved")
	if got := uids(now.list(&podconfigv1.ListPodsRequest{}).GetPods()); got != "f moved" {
		t.Errorf("in the end there are %q; want f and moved", got)
	}
	after := start(t, stored(killed(t, path), "file", "api"))
	if got := uids(after.list(&podconfigv1.ListPodsRequest{}).GetPods()); got != "dropped f moved" {
		t.Errorf("podconfigd that has the source again has %q; want all three", got)
	}
}

// TestG6HeldOrigin: a file that is broken when podconfigd starts keeps its stored pods, and its source can
// become ready.
func TestG6HeldOrigin(t *testing.T) {
	for _, when := range []string{"broken before", "broken while down"} {
		t.Run(when, func(t *testing.T) {
			path := newStore(t)
			before := start(t, stored(path, "file"))
			before.set("file", "a: web(image=1) db()\nb: other()")
			if when == "broken before" {
				before.set("file", "a: [held] [error: bad]\nb: other()")
			}
			now := start(t, stored(killed(t, path), "file"))
			s := now.watch(reference(nil))
			s.want("RESTORE file: db other web")
			s.want("synced")
			now.set("file", "a: [held] [error: bad]\nb: other()")
			if u := s.want("ADD file:"); !u.messages[0].GetUpdate().GetSourceReady() {
				t.Error("the source isn't ready; want it ready: the store has the broken file's pods")
			}
			if got := now.stale(); got != "" {
				t.Errorf("stale are %q; want none", got)
			}
			// The file is partly held: its good pods are accepted, and the others kept.
			now.set("file", "a: web(image=2) [held] [error: bad]\nb: other()")
			s.want("UPDATE file: web")
			now.set("file", "a: web(image=2)\nb: other()")
			s.want("REMOVE file: db")
		})
	}
}

// TestG6NeverReady: a source that was never ready doesn't become ready by a restart while one of its files
// can't be read.
func TestG6NeverReady(t *testing.T) {
	path := newStore(t)
	before := start(t, stored(path, "file"))
	before.set("file", "a: [held] [error: bad]\nb: other()")
	now := start(t, stored(killed(t, path), "file"))
	s := now.watch(reference(nil))
	s.want("RESTORE file: other")
	s.want("synced")
	now.set("file", "a: [held] [error: bad]\nb: other() more()")
	if u := s.want("ADD file: more"); u.messages[0].GetUpdate().GetSourceReady() {
		t.Error("the source is ready; want it unready, because the broken file's pods are unknown")
	}
}

// TestG6KilledAtEachPoint: podconfigd is killed after each of many revisions. Each time a consumer with a
// cursor resumes: from the last one it receives nothing, and from an earlier one exactly the changes since.
func TestG6KilledAtEachPoint(t *testing.T) {
	path := newStore(t)
	n := start(t, stored(path, "file"))
	live := n.watch(reference(nil))
	units := []unit{live.want("synced")}
	for _, text := range []string{
		"a: web()", "a: web() db()", "a: web(image=2) db()", "a: web(image=2,phase=Running) db()", "a: db()\nb: more()",
		"a: db()\nb: [held]", "a: db(deleting=3)\nb: more()", "", "a: web()",
	} {
		n.set("file", text)
		if n.hub.History().Number() == units[len(units)-1].cursor.GetRevision() {
			continue
		}
		units = append(units, live.unit())
		at := units[len(units)-1].cursor
		now := start(t, stored(killed(t, path), "file"))
		s := now.watch(reference(at))
		if synced := s.want("synced"); !proto.Equal(synced.cursor, at) {
			t.Fatalf("after %q podconfigd goes on at %v; want %v", text, synced.cursor, at)
		}
		now.set("file", text)
		s.want("ADD file:")
		now.stop()
	}
	now := start(t, stored(killed(t, path), "file"))
	for i, from := range units {
		s := now.watch(reference(from.cursor))
		held := map[string]string{}
		for _, u := range units[:i+1] {
			apply(held, u)
		}
		for u := s.unit(); ; u = s.unit() {
			apply(held, u)
			if u.synced != nil {
				break
			}
		}
		s.cancel()
		if got, want := fmt.Sprint(held), fmt.Sprint(map[string]string{"web": n.list(&podconfigv1.ListPodsRequest{}).GetPods()[0].GetSpecDigest()}); got != want {
			t.Errorf("resumed from revision %d the consumer holds %s; want %s", from.cursor.GetRevision(), got, want)
		}
	}
}

// apply applies a unit to a consumer's pods, spec digests by UID.
func apply(held map[string]string, u unit) {
	for _, m := range u.messages {
		for _, p := range m.GetUpdate().GetPods() {
			if m.GetUpdate().GetOp() == podconfigv1.PodOperation_POD_OPERATION_REMOVE {
				delete(held, p.GetRef().GetUid())
			} else {
				held[p.GetRef().GetUid()] = p.GetSpecDigest()
			}
		}
	}
}
