package service_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/podstream/podstream/internal/mergesvc/merge"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestG11MoveUnconfigured: a consumer that comes from another podconfigd keeps the pods of a source that isn't configured here,
// until an administrator accepts it. Names that no source can have are no sources.
func TestG11MoveUnconfigured(t *testing.T) {
	n, req := movedTo(t, "a", "b")
	req.KnownPods = append(req.KnownPods,
		&podconfigv1.KnownPod{Source: "file:site", Uid: "s", Namespace: "default", Name: "s", SpecDigest: "old"},
		&podconfigv1.KnownPod{Source: "file:\x1b[2J", Uid: "x", Namespace: "default", Name: "x"},
		&podconfigv1.KnownPod{Source: "http:" + strings.Repeat("l", 400), Uid: "l", Namespace: "default", Name: "l"})
	n.set("file", "x: a() b()")
	s := n.watch(req)
	s.want("REMOVE file:\x1b[2J: x", "REMOVE http:"+strings.Repeat("l", 400)+": l", "UPDATE file: a b")
	synced := s.want("synced")
	if got := synced.held("file:site"); !strings.Contains(got, "isn't configured here") {
		t.Fatalf("file:site is held with %q in %v; want that it isn't configured", got, synced.synced)
	}
	if got := synced.cursor.GetPodconfigdId(); got != "there" {
		t.Errorf("the cursor is of podconfigd %q; want the former one", got)
	}
	if got := gauges(t, n.svc); strings.Contains(got, "site") || !strings.Contains(got, "podconfigd_held_consumers{(not configured)}=1") {
		t.Errorf("the gauges are %s; want no label that the consumer chose", got)
	}
	n.set("api", "y: other()")
	s.want("ADD api: other")
	_, err := n.api.AcceptSource(t.Context(), &podconfigv1.AcceptSourceRequest{Source: "file:site"})
	wantCode(t, "AcceptSource", err, codes.OK)
	s.want("REMOVE file:site: s")
}

// TestG11MoveConfigured: a source that is configured while it is held for a consumer is judged like others.
func TestG11MoveConfigured(t *testing.T) {
	n, req := movedTo(t)
	req.KnownPods = []*podconfigv1.KnownPod{{Source: "file:site", Uid: "s", Namespace: "default", Name: "s", SpecDigest: "old"}}
	n.set("file", "")
	s := n.watch(req)
	s.want("synced")
	n.hub.Configure([]merge.Source{{Name: "file"}, {Name: "api"}, {Name: "file:site"}})
	n.set("file:site", "z: s()")
	for {
		if m := s.next(); m.GetUpdate() != nil {
			if got := (unit{messages: []*podconfigv1.WatchPodUpdatesResponse{m}}).String(); !strings.Contains(got, "UPDATE file:site: s") {
				t.Errorf("the consumer gets %s; want the UPDATE of s", got)
			}
			return
		}
	}
}

// TestG11MoveClaim: a consumer with a position of a source that isn't configured at the podconfigd to which it moves keeps its
// pods, and gets the other sources.
func TestG11MoveClaim(t *testing.T) {
	n, req := movedTo(t)
	n.hub.Configure([]merge.Source{{Name: "file"}})
	n.set("file", "x: a()")
	req.ResumeAfter.Positions = ahead(at("20")).GetResumeAfter().GetPositions()
	req.KnownPods = []*podconfigv1.KnownPod{{Source: "api", Uid: "u1", Namespace: "default", Name: "web", SpecDigest: "old"}}
	s := n.watch(req)
	s.want("ADD file: a")
	synced := s.want("synced")
	wantPosition(t, synced, "20", false)
	if synced.held("api") == "" {
		t.Errorf("api isn't held: %v", synced.synced)
	}
	_, err := n.api.AcceptSource(t.Context(), &podconfigv1.AcceptSourceRequest{Source: "api"})
	wantCode(t, "AcceptSource", err, codes.OK)
	if u := s.want("REMOVE api: u1"); len(u.cursor.GetPositions()) != 0 {
		t.Errorf("the cursor has positions: %v", u.cursor)
	}
}

// TestG11MoveUnlisted: of a consumer that doesn't list its pods it isn't known what it would lose. It gets a source without
// order once that was read twice.
func TestG11MoveUnlisted(t *testing.T) {
	n, req := movedTo(t)
	n.set("file", "x: a()")
	n.set("api", "y: other()")
	s := n.watch(req)
	synced := s.want("SET api: other", "synced")
	if got := synced.held("file"); !strings.Contains(got, "doesn't list its pods") {
		t.Fatalf("file is held with %q", got)
	}
	n.set("file", "x: a()")
	s.want("SET file: a other", "ADD file:")
}

// TestG11AcceptRefused: an acceptance releases the consumers whose source only an administrator can release. One of which
// podconfigd is only behind stays held, unless the administrator accepts that, too.
func TestG11AcceptRefused(t *testing.T) {
	g := startGateway(t, options{})
	g.set("file", "")
	g.follow(at("10"), at("12"), 0, "x: web(uid=u1)")
	req := ahead(at("20"), "api/u1/web", "api/u2/db")
	req.HeartbeatInterval = durationpb.New(time.Second)
	stale := g.watch(req)
	wantHeld(t, stale.want("synced"), true)
	accept := func(behind bool, want codes.Code) {
		t.Helper()
		_, err := g.api.AcceptSource(t.Context(), &podconfigv1.AcceptSourceRequest{Source: "api", Behind: behind})
		wantCode(t, "AcceptSource", err, want)
	}
	accept(false, codes.FailedPrecondition)
	other := at("9")
	other.Cluster = "another"
	foreign := g.watch(ahead(other, "api/u3/db"))
	wantHeld(t, foreign.want("synced"), true)
	accept(false, codes.OK)
	foreign.want("REMOVE api: u3", "ADD api: u1")
	g.set("file", "a: static()")
	stale.want("ADD file: static")
	g.set("file", "")
	stale.want("REMOVE file: static")
	// What was accepted before counts for nothing that is refused later.
	moved := at("30")
	moved.Cluster = "d"
	g.follow(moved, moved, 0, "x: web(uid=u9)")
	for !strings.Contains(fmt.Sprint(stale.next().GetHeartbeat()), "the cluster d") {
	}
	accept(false, codes.OK)
	stale.want("REMOVE api: u1 u2", "ADD api: u9")

	moved.ResourceVersion = "40"
	again := g.watch(ahead(moved, "api/u9/web", "api/u8/db"))
	wantHeld(t, again.want("synced"), true)
	accept(false, codes.FailedPrecondition)
	accept(true, codes.OK)
	again.want("REMOVE api: u8", "UPDATE api: u9")
}

// TestG11ReasonChanges: ListConsumers has the present reason.
func TestG11ReasonChanges(t *testing.T) {
	g := startGateway(t, options{})
	g.set("file", "")
	g.follow(at("10"), at("12"), 0, "x: web(uid=old)")
	req := ahead(at("20"), "api/new/web")
	req.HeartbeatInterval = durationpb.New(time.Second)
	s := g.watch(req)
	s.want("synced")
	g.follow(at("10"), at("17"), 0, "x: web(uid=old)")
	for !strings.Contains(fmt.Sprint(s.next().GetHeartbeat()), "version 17") {
	}
	held := g.consumers()[0].GetHeldSources()
	if len(held) != 1 || !strings.Contains(held[0].GetReason(), "17") || held[0].GetNeedsAcceptance() {
		t.Errorf("ListConsumers has %v; want a reason with version 17, which needs no acceptance", held)
	}
}

// TestG11Readded: a source that is removed takes its position with it, also on an open stream: if it is configured again, no
// cursor shows a position that its pods don't have.
func TestG11Readded(t *testing.T) {
	g := startGateway(t, options{})
	g.set("file", "")
	g.follow(at("20"), at("20"), 0, "x: web(uid=u1)")
	s := g.watch(reference(nil))
	s.want("ADD api: u1")
	s.want("synced")
	g.hub.Configure([]merge.Source{{Name: "file"}})
	if u := s.want("REMOVE api: u1"); len(u.cursor.GetPositions()) != 0 {
		t.Errorf("after the removal the positions are %v; want none", u.cursor.GetPositions())
	}
	s.next() // the heartbeat with the sources
	g.hub.Configure([]merge.Source{{Name: "file"}, {Name: "api"}})
	// A late set of the former source is for another source.
	g.follow(at("5"), at("5"), 0, "x: web(uid=u2)")
	for {
		if m := s.next(); m.GetUpdate() != nil {
			wantPosition(t, unit{cursor: m.GetCursor()}, "5", false)
			return
		}
	}
}

// TestG11LateSet: a set of a source that isn't configured any more leaves nothing behind: the source that is configured under
// the name later hasn't reached its position.
func TestG11LateSet(t *testing.T) {
	g := startGateway(t, options{})
	g.set("file", "")
	g.follow(at("20"), at("20"), 0, "x: web(uid=u1)")
	g.hub.Configure([]merge.Source{{Name: "file"}})
	g.follow(at("30"), at("30"), 7, "")
	if n := g.hub.History().Reads("api"); n != 0 {
		t.Errorf("after the late set, the removed source was read %d times; want none", n)
	}
	g.hub.Configure([]merge.Source{{Name: "file"}, {Name: "api"}})
	if got := g.hub.History().Reached("api"); len(got.Current) != 0 || got.Confirmed != 0 {
		t.Errorf("before it was read, the source has reached %+v; want nothing", got)
	}
	if n := g.hub.History().Reads("api"); n != 0 {
		t.Errorf("it was read %d times; want none", n)
	}
}

// TestG11AcceptRestart: podconfigd is killed after an administrator accepted, and before the consumer got what that releases:
// the acceptance is lost with it, and the consumer is held again. One that got it comes back with its new cursor, and isn't.
func TestG11AcceptRestart(t *testing.T) {
	path := t.TempDir() + "/store"
	g := startGateway(t, storedAt(path))
	g.set("file", "")
	other := at("5")
	other.Cluster = "d"
	g.follow(other, other, 0, "x: web(uid=u1)")
	req := ahead(at("20"), "api/u2/db")
	s := g.watch(req)
	wantHeld(t, s.want("synced"), true)
	killed := copied(t, path)
	_, err := g.api.AcceptSource(t.Context(), &podconfigv1.AcceptSourceRequest{Source: "api"})
	wantCode(t, "AcceptSource", err, codes.OK)
	released := s.want("REMOVE api: u2", "ADD api: u1")

	again := startGateway(t, storedAt(killed))
	again.set("file", "")
	again.follow(other, other, 0, "x: web(uid=u1)")
	held := again.watch(req)
	wantHeld(t, held.want("synced"), true)
	free := again.watch(reference(released.cursor, &podconfigv1.KnownPod{Source: "api", Uid: "u1", Namespace: "default", Name: "web", SpecDigest: "old"}))
	for {
		if u := free.unit(); u.synced != nil {
			if reason := u.held("api"); reason != "" {
				t.Errorf("the consumer that was released is held again: %s", reason)
			}
			return
		}
	}
}
