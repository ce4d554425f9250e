package service_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/podstream/podstream/client/position"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestG11ManyWait: 1,000 consumers, each with another claim, wait for a confirmation while the API server is away. Each
// requests one. The first confirmation after it is back releases all of them, and none lasts: goleak ends the package's tests.
func TestG11ManyWait(t *testing.T) {
	const consumers = 1000
	g := startGateway(t, options{})
	g.set("file", "")
	g.follow(at("10"), at("12"), 0, "x: web(uid=u1)")
	streams := make([]*stream, consumers)
	connection := *g.node
	for i := range streams {
		if i%100 == 0 {
			connection.api = podconfigv1.NewPodConfigServiceClient(dial(t, g.address)) // A connection has 250 streams at most.
		}
		claim := at(fmt.Sprint(math.MaxUint64 - uint64(i)))
		if i%2 == 1 {
			claim = at(fmt.Sprint(100 + i))
		}
		claim.Epoch = uint64(i % 3)
		streams[i] = connection.watch(ahead(claim, "api/u1/web", "api/gone/db"))
		wantHeld(t, streams[i].want("synced"), true)
	}
	if n := g.requests(); n != consumers {
		t.Errorf("%d confirmations were requested; want one for each stream", n)
	}
	g.follow(at("10"), at("13"), 0, "x: web(uid=u1)")
	g.confirmedAt = "2000"
	g.follow(at("10"), at("14"), consumers, "x: web(uid=u1)")
	for i, s := range streams {
		u := s.want("REMOVE api: gone", "UPDATE api: u1")
		if p := u.cursor.GetPositions(); len(p) != 1 || !p[0].GetConfirmed() {
			t.Errorf("consumer %d has the positions %v; want one that is confirmed", i, p)
		}
		s.cancel()
	}
	if n := g.requests(); n != consumers {
		t.Errorf("%d confirmations were requested in the end; want %d", n, consumers)
	}
	// What they claimed counts for none that comes later.
	fresh := g.watch(reference(nil))
	fresh.want("ADD api: u1")
	if p := fresh.want("synced").cursor.GetPositions(); p[0].GetResourceVersion() != "10" || p[0].GetEpoch() != 0 {
		t.Errorf("another consumer has the positions %v; want the gateway's own", p)
	}
}

// TestG11Reconnects: a consumer that connects time and again with a claim holds nothing for others, and leaves no stream.
func TestG11Reconnects(t *testing.T) {
	g := startGateway(t, options{})
	g.set("file", "")
	g.follow(at("10"), at("12"), 0, "x: web(uid=u1)")
	other := g.watch(ahead(at("12"), "api/u1/web"))
	other.want("UPDATE api: u1")
	wantHeld(t, other.want("synced"), false)
	for i := range 200 {
		s := g.watch(ahead(at(fmt.Sprint(1000+i)), "api/u1/web"))
		wantHeld(t, s.want("synced"), true)
		s.cancel()
	}
	until(t, "the streams have ended", func() bool { return len(g.consumers()) == 1 })
	g.follow(at("15"), at("15"), 0, "")
	wantPosition(t, other.want("REMOVE api: u1"), "15", false)
}

// TestG11ManyPositions: a podconfigd with more positions than a message may have sends those that fit, always the same ones;
// clients refuse more.
func TestG11ManyPositions(t *testing.T) {
	const relays = 100
	sources := []merge.Source{{Name: "file"}, {Name: "api"}}
	for i := range relays {
		sources = append(sources, merge.Source{Name: fmt.Sprintf("relay:%03d", i)})
	}
	g := startGateway(t, options{hub: func(cfg *mergesvc.Config) { cfg.Sources = sources }})
	g.set("file", "")
	g.follow(at("10"), at("12"), 0, "x: web(uid=u1)")
	for _, s := range sources[2:] {
		g.second++
		set := mergetest.Set(s.Name, g.second, "")
		p := position.Positions{{Source: s.Name, Cluster: "c", ResourceVersion: "5"}}
		set.Progress = &manifest.Progress{Changed: p, Current: p}
		g.hub.Apply(set)
	}
	s := g.watch(reference(nil))
	s.want("ADD api: u1")
	synced := s.want("synced")
	for name, list := range map[string][]*podconfigv1.SourcePosition{
		"the cursor": synced.cursor.GetPositions(), "synced": synced.synced.GetPositions(),
	} {
		if p, err := position.FromProto(list); err != nil || len(p) != position.MaxPositions {
			t.Errorf("%s has %d positions, %v; want %d", name, len(list), err, position.MaxPositions)
		}
	}
	claim := position.Position{Source: "relay:099", Cluster: "c", ResourceVersion: "4"}
	claimed := g.watch(reference(&podconfigv1.Cursor{InstanceId: "another", Positions: position.Positions{claim}.Proto()}))
	if u := claimed.want("SET file: u1", "synced"); !strings.Contains(fmt.Sprint(u.cursor), "relay:099") {
		t.Errorf("the cursor lacks the claimed source: %v", u.cursor)
	}
}
