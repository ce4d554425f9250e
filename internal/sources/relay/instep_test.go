package relay

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestNeverInStep: an upstream that never says that its state is complete has nothing handed over of it.
func TestNeverInStep(t *testing.T) {
	s, endpoint := scripted(t)
	s.pods <- saying(nil, op(1, add, wirePod("web()")), heartbeat())
	s.pods <- saying(nil, synced(1))
	r := relay(t, nil, Config{Endpoint: endpoint, Patience: time.Nanosecond})
	r.failed("it doesn't finish what it says")
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

// TestSilent: of an upstream that says nothing for three times the interval of its heartbeats nothing is handed over but that.
func TestSilent(t *testing.T) {
	s, endpoint := scripted(t)
	s.pods <- saying(nil)
	r := relay(t, nil, Config{Endpoint: endpoint, Heartbeat: 10 * time.Millisecond})
	r.failed("no sign of life for 30ms")
	r.stop()
	// The next try may have failed too before it was stopped.
	for _, set := range r.all {
		if set.Err == nil {
			t.Errorf("a set of %d origins was handed over; want the error only", len(set.Origins))
		}
	}
}

// TestNotHeard: nothing is handed over of an upstream that doesn't take the word that it was heard, whatever it says: only that word
// tells a relay that may have whole pods from one that is shown redacted ones.
func TestNotHeard(t *testing.T) {
	s, endpoint := scripted(t)
	want := []string{"busy", "pods that are redacted"}
	s.reported <- status.Error(codes.ResourceExhausted, "busy")
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

// TestNoSources: of an upstream that tells of no source nothing is certain, so the relay isn't ready.
func TestNoSources(t *testing.T) {
	s, endpoint := scripted(t)
	none := synced(2)
	none.GetSynced().Sources = nil
	s.pods <- saying(errBroken, op(1, add, wirePod("web()")), synced(1))
	s.pods <- saying(nil, none)
	r := relay(t, nil, Config{Endpoint: endpoint})
	r.good()
	if got := origins(r.good()); got != "file default/web web, (no sources upstream)!" {
		t.Errorf("the origins are %s; want what there was, and the word that it isn't ready", got)
	}
}

// TestBacklog: an upstream that sends much while little is taken waits, and doesn't keep a stream from ending.
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
		t.Errorf("the origins are %s; want those of the next stream", got)
	}
}
