package service_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/podstream/podstream/internal/clocktest"
	"github.com/podstream/podstream/internal/disktest"
	"github.com/podstream/podstream/internal/mergesvc"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// running runs the hub's Run until the test ends.
func (n *node) running() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.hub.Run(ctx)
	}()
	n.t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// TestG6FullDisk: the disk is full, and has space again. Consumers are always served, and cursors and
// heartbeats show what is stored. After a kill at any point the guarantees hold: everything that a consumer saw
// under the store's instance is stored, and a cursor of the temporary instance leads to a catch-up by known
// pods.
func TestG6FullDisk(t *testing.T) {
	path := filepath.Join(disktest.Small(t), "podconfigd.db")
	c, beats := &sweepClock{clocktest.New()}, clocktest.NewTimers(time.Unix(0, 0))
	o := stored(path, "file")
	withStore := o.hub
	o.hub = func(cfg *mergesvc.Config) {
		withStore(cfg)
		cfg.Clock = c
	}
	o.clock = beats
	n := start(t, o)
	n.running()
	req := named("live")
	req.HeartbeatInterval = durationpb.New(1000 * time.Hour)
	live := n.watch(req)
	live.want("synced")
	n.set("file", "a: web()")
	durable := live.want("ADD file: web").cursor
	beat := func(want podconfigv1.StoreState) {
		t.Helper()
		until(t, "no other consumer is left", func() bool { return len(n.consumers()) == 1 })
		for len(beats.Set) > 0 {
			<-beats.Set
		}
		s := n.watch(reference(nil))
		defer s.cancel()
		for s.unit().synced == nil {
		}
		<-beats.Set
		beats.Step(30 * time.Second)
		if got := s.next().GetHeartbeat().GetStoreState(); got != want {
			t.Errorf("the heartbeat has %v; want %v", got, want)
		}
	}
	beat(podconfigv1.StoreState_STORE_STATE_DURABLE)

	free := disktest.FillUp(t, filepath.Dir(path))
	n.set("file", "a: web()\nb: large(pad=200)")
	large := live.want("ADD file: large")
	hears := func(want podconfigv1.StoreState) {
		t.Helper()
		if h := live.next().GetHeartbeat(); h.GetStoreState() != want {
			t.Errorf("a busy consumer receives %v; want %v at once", h, want)
		}
	}
	hears(podconfigv1.StoreState_STORE_STATE_TEMPORARY)
	if large.cursor.GetInstanceId() == durable.GetInstanceId() || large.cursor.GetRevision() != 2 {
		t.Errorf("the revision that can't be stored has cursor %v; want revision 2 of a temporary instance", large.cursor)
	}
	beat(podconfigv1.StoreState_STORE_STATE_TEMPORARY)
	n.set("file", "b: large(pad=200)")
	temporary := live.want("REMOVE file: web").cursor
	if temporary.GetInstanceId() != large.cursor.GetInstanceId() {
		t.Errorf("the next revision has cursor %v; want the same temporary instance as %v", temporary, large.cursor)
	}
	// Within the process every cursor is valid.
	for _, from := range []struct {
		cursor *podconfigv1.Cursor
		want   []string
	}{{durable, []string{"ADD file: large", "REMOVE file: web"}}, {large.cursor, []string{"REMOVE file: web"}}, {temporary, nil}} {
		s := n.watch(reference(from.cursor))
		for _, line := range from.want {
			s.want(line)
		}
		if got := s.want("synced").cursor; !proto.Equal(got, temporary) {
			t.Errorf("resumed from %v: synced at %v; want %v", from.cursor, got, temporary)
		}
		s.cancel()
	}

	// After a kill now, podconfigd has the stored pods.
	during := start(t, stored(killed(t, path), "file"))
	s := during.watch(reference(durable))
	s.want("synced")
	s = during.watch(reference(temporary, known(large)...))
	// The consumer has removed web, and podconfigd still has it: its source decides.
	s.want("RESTORE file: web")
	s.want("synced")
	during.set("file", "b: large(pad=200)")
	s.want("REMOVE file: web", "ADD file:")

	c.sweep(5 * time.Second)
	if !n.hub.History().Instance().Temporary {
		t.Fatal("the store is in use on a full disk; want that it isn't: the test would prove nothing")
	}
	free()
	c.sweep(5 * time.Second)
	if instance := n.hub.History().Instance(); instance.Temporary || instance.ID != durable.GetInstanceId() {
		t.Fatalf("once there is room the instance is %+v; want the store's, %s", instance, durable.GetInstanceId())
	}
	beat(podconfigv1.StoreState_STORE_STATE_DURABLE)
	n.watch(reference(temporary)).want("synced")
	// After a kill now, before anything else is published, everything is stored, including what was published
	// meanwhile.
	after := start(t, stored(killed(t, path), "file"))
	s = after.watch(reference(durable))
	s.want("REMOVE file: web", "RESTORE file: large")
	s.want("synced")
	n.set("file", "b: large(pad=200) last()")
	last := live.want("ADD file: last").cursor
	if last.GetInstanceId() != durable.GetInstanceId() || last.GetRevision() != 4 {
		t.Errorf("what is stored again has cursor %v; want revision 4 of %s", last, durable.GetInstanceId())
	}
	hears(podconfigv1.StoreState_STORE_STATE_DURABLE)
	end := start(t, stored(killed(t, path), "file"))
	s = end.watch(reference(last))
	s.want("synced")
	end.set("file", "b: large(pad=200) last()")
	s.want("ADD file:")
	if got := fmt.Sprint(end.seen()); got != fmt.Sprint(n.seen()) {
		t.Errorf("first-seen times are %s; want %s", got, n.seen())
	}
}
