package relay

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/manifest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestNeverInStep: a relay passes on nothing of an upstream that never completes its state.
func TestNeverInStep(t *testing.T) {
	s, endpoint := scripted(t)
	s.pods <- saying(nil, op(1, add, wirePod("web()")), heartbeat())
	s.pods <- saying(nil, synced(1))
	r := relay(t, nil, Config{Endpoint: endpoint, Patience: time.Nanosecond})
	r.failed("it doesn't complete a unit")
	if got := origins(r.good()); got != "file default/web web" {
		t.Errorf("the origins are %s; want web, which came with the first stream", got)
	}
	r.stop()
	for _, set := range r.all {
		if set.Err == nil && len(set.Origins) == 0 {
			t.Error("a set without pods was handed over before the state was complete")
		}
	}
}

// TestSilent: if an upstream sends nothing for three heartbeat intervals, only that error is passed on.
func TestSilent(t *testing.T) {
	s, endpoint := scripted(t)
	s.pods <- saying(nil)
	r := relay(t, nil, Config{Endpoint: endpoint, Heartbeat: 10 * time.Millisecond})
	r.failed("no message for 30ms")
	r.stop()
	// The next attempt may also have failed before it was stopped.
	for _, set := range r.all {
		if set.Err == nil {
			t.Errorf("a set of %d origins was handed over; want the error only", len(set.Origins))
		}
	}
}

// TestNotHeard: nothing is passed on of an upstream that rejects ReportApplied: only that call shows that a
// relay receives whole pods and not redacted ones.
func TestNotHeard(t *testing.T) {
	s, endpoint := scripted(t)
	want := []string{"gone", "redacted pods"}
	s.reported <- status.Error(codes.Unavailable, "gone")
	s.reported <- status.Error(codes.PermissionDenied, "no")
	for range 3 {
		s.pods <- saying(nil, op(1, add, wirePod("web()")), synced(1))
	}
	r := relay(t, nil, Config{Endpoint: endpoint})
	if got := origins(r.good()); got != "file default/web web" {
		t.Errorf("the origins are %s; want web", got)
	}
	r.stop()
	if len(r.all) != 3 {
		t.Fatalf("%d sets were handed over; want two errors and then the pods", len(r.all))
	}
	for i, text := range want {
		if r.all[i].Err == nil || !strings.Contains(r.all[i].Err.Error(), text) {
			t.Errorf("set %d has the error %v; want %q", i, r.all[i].Err, text)
		}
	}
}

// TestBusyUpstream: ReportApplied is repeated on the same stream while the upstream has too many calls.
func TestBusyUpstream(t *testing.T) {
	s, endpoint := scripted(t)
	for range 3 {
		s.reported <- status.Error(codes.ResourceExhausted, "busy")
	}
	s.pods <- saying(nil, op(1, add, wirePod("web()")), synced(1))
	r := relay(t, nil, Config{Endpoint: endpoint})
	set := r.next("at all", func(manifest.Set) bool { return true })
	if got := origins(set); set.Err != nil || got != "file default/web web" {
		t.Errorf("the first set has the origins %s and the error %v; want web", got, set.Err)
	}
	if n := len(s.requests); n != 1 {
		t.Errorf("the relay opens %d streams; want 1", n)
	}
}

// TestUpstreamStaysBusy: an upstream that has too many calls for longer than the relay's patience is an error.
func TestUpstreamStaysBusy(t *testing.T) {
	s, endpoint := scripted(t)
	for range 2 {
		s.reported <- status.Error(codes.ResourceExhausted, "busy")
	}
	for range 3 {
		s.pods <- saying(nil, op(1, add, wirePod("web()")), synced(1))
	}
	r := relay(t, nil, Config{Endpoint: endpoint, Patience: time.Nanosecond})
	r.failed("busy")
	r.good()
}

// TestNoSources: the pods of an upstream without sources are not known, so the relay isn't ready.
func TestNoSources(t *testing.T) {
	s, endpoint := scripted(t)
	none := synced(2)
	none.GetSynced().Sources = nil
	s.pods <- saying(errBroken, op(1, add, wirePod("web()")), synced(1))
	s.pods <- saying(nil, none)
	r := relay(t, nil, Config{Endpoint: endpoint})
	r.good()
	if got := origins(r.good()); got != "file default/web web, (no sources upstream)!" {
		t.Errorf("the origins are %s; want the earlier ones, and that it isn't ready", got)
	}
}

// TestBacklog: an upstream that sends faster than its messages are handled waits, and a stream can still end.
func TestBacklog(t *testing.T) {
	s, endpoint := scripted(t)
	says := []*message{synced(1), op(2, add, changed("web()", func(p *podconfigv1.Pod) { p.Source = "" }))}
	for i := range uint64(10) {
		says = append(says, op(3+i, add, wirePod("web(pad=1400)")))
	}
	s.pods <- saying(nil, says...)
	s.pods <- saying(nil, op(2, add, wirePod("web()")), synced(2))
	r := relay(t, nil, Config{Endpoint: endpoint})
	r.failed("a pod with the reference")
	if got := origins(r.good()); got != "file default/web web" {
		t.Errorf("the origins are %s; want the origins of the next stream", got)
	}
}
