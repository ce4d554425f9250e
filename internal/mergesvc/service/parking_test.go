package service_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/podstream/podstream/internal/clocktest"
	"github.com/podstream/podstream/internal/logtest"
	"github.com/podstream/podstream/internal/mergesvc/metrics"
	"github.com/podstream/podstream/internal/mergesvc/service"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestG8Parked: a consumer that hasn't accepted a message for ParkAfter is parked: it is listed, counted and
// logged once. Merges and other consumers continue. When it reads again it converges, and is no longer parked.
func TestG8Parked(t *testing.T) {
	c, log, counts := &sweepClock{clocktest.New()}, &logtest.Buffer{}, metrics.New()
	n := start(t, options{clock: c, revisions: 4, service: func(cfg *service.Config) {
		cfg.Logger, cfg.Metrics, cfg.ParkAfter = slog.New(slog.NewTextHandler(log, nil)), counts, 5*time.Second
	}})
	n.sweeping()
	slow := n.gated(named("slow"))
	if m := slow.waits(); m.GetSynced() == nil {
		t.Fatalf("the first message is %v; want synced", m)
	}
	slow.take()
	quick := n.watch(named("quick"))
	quick.want("synced")

	n.set("file", "a: web(image=0)")
	quick.want("ADD file: web")
	waiting := slow.waits()
	stateOf := func(name string) *podconfigv1.Consumer {
		for _, c := range n.consumers() {
			if c.GetName() == name {
				return c
			}
		}
		t.Fatal("the consumer isn't listed")
		return nil
	}
	state := func() *podconfigv1.Consumer { return stateOf("slow") }
	// It has the message, but its stream may not have noted yet that it was handed over.
	until(t, "the quick consumer is live", func() bool { return stateOf("quick").GetState() == live })
	c.sweep(4900 * time.Millisecond)
	if s := state(); s.GetState() != catchingUp || s.GetParkedCount() != 0 {
		t.Errorf("before ParkAfter the consumer is %v; want that it catches up", s)
	}
	c.sweep(200 * time.Millisecond)
	c.sweep(10 * time.Second)
	if s := state(); s.GetState() != parked || s.GetParkedCount() != 1 || s.GetLagRevisions() != 1 || s.GetLaggingSince() == nil {
		t.Errorf("after ParkAfter the consumer is %v; want it parked once, with a lag of 1", s)
	}
	if got := gathered(t, counts.Parked.WithLabelValues(metrics.Stalled)); got != 1 {
		t.Errorf("%v parkings are counted; want 1", got)
	}
	until(t, "the log tells once that it is parked", func() bool { return log.Count("doesn't read and is parked") == 1 })
	if got := gauges(t, n.svc); got != `podconfigd_consumer_lag_revisions=1 podconfigd_consumers{catching_up}=0 podconfigd_consumers{live}=1 podconfigd_consumers{parked}=1 podconfigd_held_consumers{api}=0 podconfigd_held_consumers{file}=0` {
		t.Errorf("the server's gauges are %s; want one live and one parked, with a lag of 1", got)
	}
	for i := 1; i <= 20; i++ {
		n.set("file", fmt.Sprintf("a: web(image=%d)", i))
		quick.want("UPDATE file: web")
	}
	if s := state(); s.GetLagRevisions() != 21 {
		t.Errorf("after 20 revisions more the lag is %d; want 21", s.GetLagRevisions())
	}

	// It reads again: first the waiting message, then all missed changes, as one op for the pod.
	if waiting.GetUpdate().GetOp() != podconfigv1.PodOperation_POD_OPERATION_ADD || waiting.GetCursor().GetRevision() != 1 {
		t.Errorf("the message that waited is %v; want the ADD of revision 1", waiting)
	}
	slow.take()
	caughtUp := slow.waits()
	if caughtUp.GetUpdate().GetOp() != podconfigv1.PodOperation_POD_OPERATION_UPDATE || caughtUp.GetCursor().GetRevision() != 21 {
		t.Errorf("then comes %v; want one UPDATE, up to revision 21", caughtUp)
	}
	if got := state().GetState(); got != catchingUp {
		t.Errorf("once it reads again it is %v; want that it catches up", got)
	}
	slow.take()
	until(t, "the consumer is live", func() bool { return state().GetState() == live })
	if got := gathered(t, counts.Parked.WithLabelValues(metrics.FellBehind)); got != 1 {
		t.Errorf("%v falls off the history are counted; want 1", got)
	}
	c.sweep(time.Hour)
	if s := state(); s.GetState() != live || s.GetParkedCount() != 1 {
		t.Errorf("a consumer to which there is nothing to send is %v after an hour; want it live", s)
	}

	// A consumer that is parked again is logged again.
	n.set("file", "")
	slow.waits()
	// Without the lag it may be live only because its stream hasn't begun to send the removal.
	until(t, "the quick consumer is live again", func() bool { q := stateOf("quick"); return q.GetState() == live && q.GetLagRevisions() == 0 })
	c.sweep(6 * time.Second)
	if s := state(); s.GetState() != parked || s.GetParkedCount() != 2 {
		t.Errorf("the second time it is %v; want it parked twice", s)
	}
	until(t, "the log tells of it again", func() bool { return log.Count("doesn't read and is parked") == 2 })
}

// TestG8ParkedInCatchup: a consumer may also stop reading in its initial state. It then receives the state as
// of the start of the stream.
func TestG8ParkedInCatchup(t *testing.T) {
	c := &sweepClock{clocktest.New()}
	n := start(t, options{clock: c})
	n.sweeping()
	n.set("file", "a: a(pad=700) b(pad=700) c(pad=700)")
	slow := n.gated(&podconfigv1.WatchPodUpdatesRequest{Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF})
	if m := slow.waits(); !m.GetContinued() || len(m.GetUpdate().GetPods()) != 1 {
		t.Fatalf("the first message is of %d pods, continued=%v; want one of several", len(m.GetUpdate().GetPods()), m.GetContinued())
	}
	c.sweep(time.Minute)
	if cs := n.consumers(); cs[0].GetState() != parked || cs[0].GetCursor() != nil {
		t.Errorf("the consumer is %v; want it parked, without a cursor", cs[0])
	}
	for i := range 5 {
		n.set("file", fmt.Sprintf("a: a(image=%d) b() c()", i))
	}
	slow.take()
	for _, name := range []string{"b", "c"} {
		if m := slow.waits(); m.GetUpdate().GetPods()[0].GetRef().GetName() != name {
			t.Errorf("then comes %v; want pod %s of the initial state", m.GetUpdate().GetPods()[0].GetRef(), name)
		}
		slow.take()
	}
	if m := slow.waits(); m.GetSynced() == nil || m.GetCursor().GetRevision() != 1 {
		t.Errorf("then comes %v; want synced at revision 1, where the stream began", m)
	}
	slow.take()
	if m := slow.waits(); m.GetCursor().GetRevision() != 2 {
		t.Errorf("then comes %v; want revision 2", m)
	}
}

// TestCloseDuringCatchup: a stream in the middle of a long catch-up ends with UNAVAILABLE after the revision
// that it is sending: a server that stops doesn't wait for the rest.
func TestCloseDuringCatchup(t *testing.T) {
	n := start(t, options{})
	at := n.watch(reference(nil)).want("synced").cursor
	for i := range 50 {
		n.set("file", fmt.Sprintf("a: web(image=%d)", i))
	}
	resumed := n.gated(reference(at))
	if m := resumed.waits(); m.GetCursor().GetRevision() != 1 {
		t.Fatalf("the first message is %v; want revision 1", m)
	}
	n.svc.Close()
	resumed.take()
	select {
	case err := <-resumed.ended:
		wantCode(t, "the stream of a server that goes down", err, codes.Unavailable)
	case m := <-resumed.entered:
		t.Errorf("after Close another message is sent: %v; want the end", decoded(t, m))
	}
	n.svc.Close()
}
