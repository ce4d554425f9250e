package service_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/podstream/podstream/client/position"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestG11Stale: a gateway that missed that a pod was recreated sends a consumer that is ahead nothing of the source. Other
// sources go on. When the gateway has caught up, the same stream has the difference.
func TestG11Stale(t *testing.T) {
	g := startGateway(t, options{})
	g.set("file", "")
	g.follow(at("10"), at("12"), 0, "x: web(uid=old)")
	s := g.watch(ahead(at("20"), "api/new/web", "api/gone/db"))
	synced := s.want("synced")
	wantHeld(t, synced, true)
	wantPosition(t, synced, "20", false)
	if got := g.requests(); got != 1 {
		t.Errorf("%d confirmations were requested; want one", got)
	}
	g.follow(at("15"), at("15"), 0, "x: web(uid=old,image=2)")
	g.set("file", "a: static()")
	wantPosition(t, s.want("ADD file: static"), "20", false)
	// The same name as that of a held pod: it isn't sent before that is decided.
	g.set("file", "a: static() db(uid=fresh)")
	g.follow(at("20"), at("20"), 0, "x: web(uid=new)")
	wantPosition(t, s.want("REMOVE api: gone", "ADD file: fresh", "UPDATE api: new"), "20", false)
	beat := s.next()
	if beat.GetHeartbeat() == nil || beat.GetHeartbeat().GetSources()[1].GetHeldReason() != "" || !beat.GetHeartbeat().GetSources()[1].GetReady() {
		t.Errorf("after it comes %v; want a heartbeat in which api is ready, and not held", beat)
	}
	g.follow(at("21"), at("21"), 0, "")
	wantPosition(t, s.want("REMOVE api: new"), "21", false)
}

// TestG11Equal: a consumer that isn't ahead isn't held, and its position isn't lowered by a gateway whose last change is
// older, and which is current nevertheless.
func TestG11Equal(t *testing.T) {
	g := startGateway(t, options{})
	g.set("file", "")
	g.follow(at("10"), at("20"), 0, "x: web(uid=u1)")
	s := g.watch(ahead(at("20"), "api/u1/web"))
	wantPosition(t, s.want("UPDATE api: u1"), "20", false)
	synced := s.want("synced")
	wantHeld(t, synced, false)
	wantPosition(t, synced, "20", false)
	if got := synced.synced.GetPositions(); len(got) != 1 || got[0].GetResourceVersion() != "20" {
		t.Errorf("synced has the positions %v; want 20", got)
	}
	g.set("file", "a: static()")
	wantPosition(t, s.want("ADD file: static"), "20", false)
	g.follow(at("30"), at("30"), 0, "")
	wantPosition(t, s.want("REMOVE api: u1"), "30", false)
	if got := g.requests(); got != 0 {
		t.Errorf("%d confirmations were requested; want none", got)
	}
	fresh := g.watch(reference(nil))
	fresh.want("ADD file: static")
	wantPosition(t, fresh.want("synced"), "30", false)
}

// TestG11Confirmed: the API server ends that a source is held. If it shows a later version, that is the position. If its
// history went back, the lower one counts, as confirmed, and only after the confirmation that this stream requested.
func TestG11Confirmed(t *testing.T) {
	g := startGateway(t, options{})
	g.set("file", "")
	g.follow(at("10"), at("12"), 0, "x: web(uid=u1)")
	quiet := g.watch(ahead(at("20"), "api/u1/web"))
	wantHeld(t, quiet.want("synced"), true)
	g.follow(at("10"), at("25"), 1, "x: web(uid=u1)")
	wantPosition(t, quiet.want("UPDATE api: u1"), "25", false)

	back := g.watch(ahead(at("90"), "api/u1/web", "api/u2/db"))
	wantHeld(t, back.want("synced"), true)
	g.follow(at("10"), at("26"), 1, "x: web(uid=u1)")
	g.set("file", "a: static()")
	wantPosition(t, back.want("ADD file: static"), "90", false)
	restored := at("11")
	restored.Epoch = 1
	g.follow(restored, restored, 2, "x: web(uid=u1)")
	wantPosition(t, back.want("REMOVE api: u2", "UPDATE api: u1"), "11", true)
	g.set("file", "")
	// The heartbeat that shows the readiness comes first.
	back.next()
	wantPosition(t, back.want("REMOVE file: static"), "11", false)
}

// TestG11ConfirmedNode: a confirmation of the consumer's nodes alone says nothing of how current the gateway is as a whole.
// The consumer isn't held any more, and keeps its position, so that a third gateway that is behind that holds it.
func TestG11ConfirmedNode(t *testing.T) {
	g := startGateway(t, options{})
	g.set("file", "")
	g.follow(at("10"), at("12"), 0, "x: web(uid=u1)")
	s := g.watch(ahead(at("20"), "api/u1/web"))
	wantHeld(t, s.want("synced"), true)
	g.confirmedAt = "30"
	g.follow(at("10"), at("12"), 1, "x: web(uid=u1)")
	wantPosition(t, s.want("UPDATE api: u1"), "20", true)
	g.set("file", "a: static()")
	s.next() // the heartbeat that shows the readiness
	wantPosition(t, s.want("ADD file: static"), "20", false)
}

// TestG11UnseenEpoch: the history of the cluster went back while this gateway didn't follow it. The consumer that is ahead of
// what the API server has gets a position in the next epoch: a gateway that is cut off and has the old history holds it. The
// gateway's own epoch, which other consumers have, doesn't change by what a consumer claims.
func TestG11UnseenEpoch(t *testing.T) {
	g := startGateway(t, options{})
	g.set("file", "")
	g.follow(at("25"), at("26"), 0, "x: web(uid=u1)")
	s := g.watch(ahead(at("90"), "api/u1/web", "api/lost/db"))
	wantHeld(t, s.want("synced"), true)
	g.confirmedAt = "27"
	g.follow(at("25"), at("26"), 1, "x: web(uid=u1)")
	u := s.want("REMOVE api: lost", "UPDATE api: u1")
	wantPosition(t, u, "27", true)
	wantEpoch := func(u unit, want uint64) {
		t.Helper()
		if got := u.cursor.GetPositions()[0].GetEpoch(); got != want {
			t.Errorf("%s has a position of epoch %d; want %d", u, got, want)
		}
	}
	wantEpoch(u, 1)
	s.next() // the heartbeat that shows the readiness
	g.follow(at("95"), at("95"), 1, "")
	u = s.want("REMOVE api: u1")
	wantPosition(t, u, "27", false)
	wantEpoch(u, 1)
	other := g.watch(reference(nil))
	wantEpoch(other.want("synced"), 0)
}

// TestG11LiveEpoch: a consumer that follows a gateway whose cluster's history goes back gets the new epoch as confirmed.
func TestG11LiveEpoch(t *testing.T) {
	g := startGateway(t, options{})
	g.set("file", "")
	g.follow(at("10"), at("12"), 0, "x: web(uid=u1)")
	for _, filter := range []*podconfigv1.PodFilter{nil, {Namespaces: []string{"default"}}} {
		req := reference(nil)
		req.Filter = filter
		s := g.watch(req)
		s.want("ADD api: u1")
		wantPosition(t, s.want("synced"), "10", false)
		back := at("5")
		if back.Epoch = 1; filter != nil {
			back.Epoch = 2
		}
		g.follow(back, back, 0, "x: web(uid=u1) db()")
		wantPosition(t, s.want("ADD api: db"), "5", true)
		first := at("10")
		first.Epoch = back.Epoch
		g.follow(first, first, 0, "x: web(uid=u1)")
		wantPosition(t, s.want("REMOVE api: db"), "10", false)
	}
}

// TestG11Cluster: positions of another cluster are held, and no confirmation ends that. Once an administrator has
// confirmed that the cluster is replaced, they are released.
func TestG11Cluster(t *testing.T) {
	g := startGateway(t, options{})
	g.set("file", "")
	other := at("99")
	other.Cluster = "d"
	g.follow(other, other, 0, "x: web(uid=u1)")
	s := g.watch(ahead(at("20"), "api/u2/db"))
	wantHeld(t, s.want("synced"), true)
	g.follow(other, other, 5, "x: web(uid=u1)")
	if got := g.requests(); got != 0 {
		t.Errorf("%d confirmations were requested; want none", got)
	}
	g.set("file", "a: static()")
	s.want("ADD file: static")
	other.Replaced = []string{"c"}
	g.follow(other, other, 5, "x: web(uid=u1)")
	u := s.want("REMOVE api: u2", "ADD api: u1")
	if p := u.cursor.GetPositions(); len(p) != 1 || p[0].GetCluster() != "d" {
		t.Errorf("the positions are %v; want one of the cluster d", p)
	}
}

// TestG11Unknown: until the gateway's position is known, nothing is removed of a consumer that has one. A consumer that
// didn't list its pods gets a SET at the end.
func TestG11Unknown(t *testing.T) {
	g := startGateway(t, options{})
	g.set("file", "a: static()")
	g.set("api", "x: web(uid=u1)")
	s := g.watch(ahead(at("20")))
	wantHeld(t, s.want("SET file: static", "synced"), true)
	g.follow(at("20"), at("20"), 0, "x: web(uid=u1)")
	s.want("SET file: static u1", "ADD api:")
}

// TestG11Restart: the positions are stored, so a restarted gateway that can't reach its API server isn't behind its own
// consumers, and is behind those of another one.
func TestG11Restart(t *testing.T) {
	path := t.TempDir() + "/store"
	withStore := storedAt(path)
	g := startGateway(t, withStore)
	g.set("file", "")
	g.follow(at("10"), at("12"), 0, "x: web(uid=u1)")
	own := g.watch(reference(nil))
	own.want("ADD api: u1")
	cursor := own.want("synced").cursor
	own.cancel()
	again := startGateway(t, storedAt(copied(t, path)))
	again.set("file", "")
	resumed := again.watch(reference(cursor, &podconfigv1.KnownPod{Uid: "u1", Source: "api", Namespace: "default", Name: "web"}))
	resumed.want("ADD file:")
	u := resumed.want("synced")
	wantPosition(t, u, "10", false)
	if reason := u.synced.GetSources()[1].GetHeldReason(); reason != "" {
		t.Errorf("the gateway's own consumer is held: %s", reason)
	}
	foreign := again.watch(ahead(at("11"), "api/u2/web"))
	if reason := foreign.want("synced").synced.GetSources()[1].GetHeldReason(); !strings.Contains(reason, "resource version 10") {
		t.Errorf("the consumer of another gateway is held with %q; want that this one is at 10", reason)
	}
}

// TestG11Listed: ListConsumers names what is held, and why. A heartbeat does too.
func TestG11Listed(t *testing.T) {
	g := startGateway(t, options{})
	g.set("file", "")
	g.follow(at("10"), at("12"), 0, "x: web(uid=old)")
	req := ahead(at("20"), "api/new/web")
	req.HeartbeatInterval = durationpb.New(1)
	s := g.watch(req)
	s.want("synced")
	list := g.consumers()
	if len(list) != 1 || len(list[0].GetHeldSources()) != 1 || list[0].GetHeldSources()[0].GetName() != "api" ||
		!strings.Contains(list[0].GetHeldSources()[0].GetReason(), "12") || list[0].GetHeldSources()[0].GetSince() == nil {
		t.Errorf("ListConsumers has %v; want api held, at version 12", list)
	}
	resp, err := g.api.ListSources(t.Context(), &podconfigv1.ListSourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.GetSources()[1].GetPositions(); len(got) != 1 || got[0].GetResourceVersion() != "12" {
		t.Errorf("ListSources has the positions %v of api; want 12", got)
	}
	if got := gauges(t, g.svc); !strings.Contains(got, "podconfigd_held_consumers{api}=1 podconfigd_held_consumers{file}=0") {
		t.Errorf("the gauges are %s; want api held for one", got)
	}
	if beat := s.next().GetHeartbeat(); beat == nil || beat.GetSources()[1].GetHeldReason() == "" || beat.GetPositions()[0].GetResourceVersion() != "12" {
		t.Errorf("the heartbeat is %v; want api held, and the gateway's position 12", beat)
	}
}

// TestG11Lies: what a consumer may claim is bounded, and holds nothing for others.
func TestG11Lies(t *testing.T) {
	g := startGateway(t, options{})
	g.set("file", "")
	g.follow(at("10"), at("12"), 0, "x: web(uid=u1)")
	var many []*podconfigv1.SourcePosition
	for range position.MaxPositions + 1 {
		many = append(many, position.Positions{at("1")}.Proto()...)
	}
	for name, list := range map[string][]*podconfigv1.SourcePosition{
		"too many":               many,
		"of an unknown source":   {{Source: "nothing", Cluster: "c", ResourceVersion: "99"}},
		"of a source not seen":   {{Source: "relay:x", Cluster: "c", ResourceVersion: "99"}},
		"that aren't versions":   {{Source: "api", Cluster: "c", ResourceVersion: "-1"}},
		"with its own confirmed": {{Source: "api", Cluster: "c", ResourceVersion: "9", Confirmed: true, ReplacedClusters: []string{"d"}}},
	} {
		s := g.watch(reference(&podconfigv1.Cursor{InstanceId: "another", Positions: list}))
		if u := s.want("SET file: u1", "synced"); u.synced.GetSources()[1].GetHeldReason() != "" {
			t.Errorf("positions %s hold the source: %v", name, u.synced)
		}
	}
	liar := g.watch(ahead(at(strings.Repeat("9", 40)), "api/u1/web"))
	wantHeld(t, liar.want("synced"), true)
	honest := g.watch(ahead(at("12"), "api/u1/web"))
	honest.want("UPDATE api: u1")
	wantHeld(t, honest.want("synced"), false)
}
