package service_test

import (
	"fmt"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/podstream/podstream/internal/clocktest"
	"github.com/podstream/podstream/internal/mergesvc/metrics"
	"github.com/podstream/podstream/internal/mergesvc/service"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

func ofNode(names ...string) *podconfigv1.PodFilter { return &podconfigv1.PodFilter{Nodes: names} }

// TestNodeStreamSkips: a stream of one node isn't behind while only other nodes' pods change, though the history drops
// these revisions. Its next heartbeat has a cursor past them. Then it receives its node's next change in exact history.
func TestNodeStreamSkips(t *testing.T) {
	c := clocktest.NewTimers(time.Unix(0, 0))
	counts := metrics.New()
	n := start(t, options{clock: c, revisions: 2, service: func(cfg *service.Config) { cfg.Metrics = counts }})
	n.set("api", "")
	n.set("file", "a: mine(node=n1) other(node=n2)")
	s := n.watch(filtered(ofNode("n1"), nil))
	s.want("ADD file: mine")
	s.want("synced")
	<-c.Set
	for i := range 5 {
		n.set("file", fmt.Sprintf("a: mine(node=n1) other(node=n2,image=%d)", i))
	}
	list, err := n.api.ListConsumers(t.Context(), &podconfigv1.ListConsumersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got := list.GetConsumers()[0]; got.GetState() != podconfigv1.ConsumerState_CONSUMER_STATE_LIVE || got.GetLagRevisions() != 0 || got.GetLaggingSince() != nil {
		t.Errorf("the consumer is %v; want it live, without a lag", got)
	}
	c.Step(30 * time.Second)
	if m := s.next(); m.GetHeartbeat().GetRevision() != 7 || m.GetCursor().GetRevision() != 7 {
		t.Fatalf("after an interval came %v; want a heartbeat with the cursor of revision 7", m)
	}
	<-c.Set
	n.set("file", "a: mine(node=n1,image=2) other(node=n2)")
	if u := s.want("UPDATE file: mine"); u.cursor.GetRevision() != 8 {
		t.Errorf("the change has the cursor %v; want revision 8", u.cursor)
	}
	n.set("file", "a: mine(node=n2,image=2) other(node=n2)")
	s.want("REMOVE file: mine")
	var m dto.Metric
	if err := counts.Catchups.WithLabelValues(metrics.Coalesced).Write(&m); err != nil || m.GetCounter().GetValue() != 0 {
		t.Errorf("%v catch-ups were coalesced, %v; want none", m.GetCounter().GetValue(), err)
	}
}

// TestPathWakesStreams: when the path changes, each stream sends a heartbeat at once, though no revision comes.
func TestPathWakesStreams(t *testing.T) {
	c := clocktest.New()
	path := make(chan []*podconfigv1.RelayHop, 1)
	path <- []*podconfigv1.RelayHop{{Id: "a"}}
	n := start(t, options{clock: c, service: func(cfg *service.Config) {
		cfg.Path = func() []*podconfigv1.RelayHop {
			p := <-path
			path <- p
			return p
		}
	}})
	n.sweeping()
	// The first tick compares with what Run found at its start.
	c.TickOnce()
	var streams []*stream
	for _, f := range []*podconfigv1.PodFilter{nil, ofNode("n1")} {
		s := n.watch(filtered(f, nil))
		s.want("synced")
		streams = append(streams, s)
	}
	<-path
	path <- []*podconfigv1.RelayHop{{Id: "a"}, {Id: "b"}}
	c.TickOnce()
	for i, s := range streams {
		if m := s.next(); len(m.GetHeartbeat().GetPath()) != 2 {
			t.Errorf("stream %d: after the path has changed came %v; want a heartbeat with it", i, m)
		}
	}
}
