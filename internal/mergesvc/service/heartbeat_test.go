package service_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/podstream/podstream/internal/clocktest"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestHeartbeat: a stream sends a heartbeat once in each interval, at the consumer's own revision, whether it
// is idle or busy, because revisions don't have a heartbeat's data.
func TestHeartbeat(t *testing.T) {
	c := clocktest.NewTimers(time.Unix(0, 0))
	n := start(t, options{clock: c})
	s := n.watch(&podconfigv1.WatchPodUpdatesRequest{HeartbeatInterval: durationpb.New(5 * time.Second)})
	s.want("synced")
	if got := <-c.Set; got != 5*time.Second {
		t.Errorf("the heartbeat is due in %v; want the 5 s that were asked for", got)
	}
	beat := func(revision uint64, ready string) {
		t.Helper()
		c.Step(5 * time.Second)
		m := s.next()
		h := m.GetHeartbeat()
		if h == nil || h.GetRevision() != revision || m.GetCursor() != nil || m.GetContinued() {
			t.Fatalf("after an interval came %v; want a heartbeat at revision %d, without cursor", m, revision)
		}
		got := ""
		for _, src := range h.GetSources() {
			if src.GetReady() {
				got += src.GetName() + " "
			}
		}
		if got != ready {
			t.Errorf("the heartbeat at revision %d says that %q are ready; want %q", revision, got, ready)
		}
		if h.GetStoreState() != podconfigv1.StoreState_STORE_STATE_TEMPORARY {
			t.Errorf("the heartbeat's store state is %v; want TEMPORARY, as there is no store", h.GetStoreState())
		}
		<-c.Set
	}
	beat(0, "")
	beat(0, "")
	n.set("api", "x: web()")
	s.want("ADD api: web")
	c.Step(4 * time.Second)
	n.set("file", "")
	s.want("ADD file:")
	c.Step(500 * time.Millisecond)
	n.set("api", "")
	s.want("REMOVE api: web")
	c.Step(500 * time.Millisecond)
	if h := s.next().GetHeartbeat(); h.GetRevision() != 3 {
		t.Fatalf("5 s after the last one came %v; want a heartbeat at revision 3", h)
	}
	<-c.Set
	// A heartbeat that is sent with a revision replaces the timer's next one.
	c.Step(3 * time.Second)
	n.hub.Configure([]merge.Source{{Name: "api"}, {Name: "file"}})
	if h := s.next().GetHeartbeat(); h.GetRevision() != 4 || h.GetSources()[0].GetName() != "api" {
		t.Fatalf("with other sources came %v; want a heartbeat at revision 4", h)
	}
	c.Step(2 * time.Second)
	if got := <-c.Set; got != 3*time.Second {
		t.Errorf("the next heartbeat is due in %v; want 3 s, after 5 in all", got)
	}
}

// TestHeartbeatOfAStreamThatIsBehind: a stream that never catches up receives heartbeats too.
func TestHeartbeatOfAStreamThatIsBehind(t *testing.T) {
	c := clocktest.NewTimers(time.Unix(0, 0))
	n := start(t, options{clock: c})
	req := reference(nil)
	req.HeartbeatInterval = durationpb.New(5 * time.Second)
	slow := n.gated(req)
	if m := slow.waits(); m.GetSynced() == nil {
		t.Fatalf("the first message is %v; want synced", m)
	}
	slow.take()
	<-c.Set
	n.set("file", "a: web(image=0)")
	beats := 0
	for i := range 10 {
		// While a message is under way the next revision is published, so that the stream never waits.
		m := slow.waits()
		n.set("file", fmt.Sprintf("a: web(image=%d)", i+1))
		c.Step(time.Second)
		if h := m.GetHeartbeat(); h != nil {
			beats++
		}
		slow.take()
	}
	if beats == 0 || beats > 2 {
		t.Errorf("in 10 s it was sent %d heartbeats; want one in 5 s", beats)
	}
}

// TestHeartbeatInterval: zero and unset mean 30 s, less than a second is a second.
func TestHeartbeatInterval(t *testing.T) {
	for _, tc := range []struct {
		asked *durationpb.Duration
		want  time.Duration
	}{
		{nil, 30 * time.Second},
		{durationpb.New(0), 30 * time.Second},
		{durationpb.New(time.Millisecond), time.Second},
		{durationpb.New(time.Second), time.Second},
		{durationpb.New(time.Hour), time.Hour},
	} {
		c := clocktest.NewTimers(time.Unix(0, 0))
		s := start(t, options{clock: c}).watch(&podconfigv1.WatchPodUpdatesRequest{HeartbeatInterval: tc.asked})
		s.want("synced")
		if got := <-c.Set; got != tc.want {
			t.Errorf("heartbeat_interval %v: the first is due in %v; want %v", tc.asked, got, tc.want)
		}
	}
}
