package podexecd

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podstream/podstream/internal/execsvc/decide/nodestatus"
	"github.com/podstream/podstream/internal/execsvc/machine/kmsg"
)

// TestSystemOOM: the event is the kubelet's, and a cgroup's limit causes none.
func TestSystemOOM(t *testing.T) {
	var got []nodestatus.Event
	s := newSystemOOMs(func(e nodestatus.Event) { got = append(got, e) }, slog.New(slog.DiscardHandler))
	for _, o := range []kmsg.OOM{
		{System: true, Process: "stress", PID: 7}, {Process: "limited", PID: 8}, {System: true}, {System: true, Process: "nameless"}, {System: true, PID: 9},
	} {
		s.report(o)
	}
	want := []nodestatus.Event{
		{Type: "Warning", Reason: "SystemOOM", Message: "System OOM encountered, victim process: stress, pid: 7"},
		{Type: "Warning", Reason: "SystemOOM", Message: "System OOM encountered"},
		{Type: "Warning", Reason: "SystemOOM", Message: "System OOM encountered"},
		{Type: "Warning", Reason: "SystemOOM", Message: "System OOM encountered"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestSystemOOMFlood: a flood of system OOMs causes a bounded number of events and log lines, and their number is
// logged.
func TestSystemOOMFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		recorded := 0
		s := newSystemOOMs(func(nodestatus.Event) { recorded++ }, slog.New(slog.NewTextHandler(&log, nil)))
		flood := func() {
			for pid := range 1000 {
				s.report(kmsg.OOM{System: true, Process: "sh", PID: pid + 1})
			}
		}
		flood()
		if recorded != oomBurst {
			t.Errorf("%d events; want %d", recorded, oomBurst)
		}
		time.Sleep(oomPeriod)
		flood()
		if logged := strings.Count(log.String(), "out of memory"); recorded != oomBurst || logged != oomBurst+1 || !strings.Contains(log.String(), "unreported_before=990") {
			t.Errorf("a minute later: %d events, %d in the log:\n%s", recorded, logged, log.String())
		}
		// The rest of a day: the Node has room for 12 events in an hour, which manifests and evictions share.
		for range 24 * 60 {
			time.Sleep(oomPeriod)
			flood()
		}
		if most := oomBurst + 24*3 + 1; recorded > most || recorded < most-1 {
			t.Errorf("%d events in a day; want %d", recorded, most)
		}
	})
}
