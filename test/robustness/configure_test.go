package robustness_test

import (
	"slices"
	"strings"
	"testing"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/robustness"
)

// configure tells the daemon to have these sources, after which it is at the given revision of instance i1.
func (s *script) configure(revision uint64, sources ...string) {
	s.second++
	s.step(robustness.Step{Configure: sources, Instance: "i1", Revision: revision})
}

// configured is a history in which sources go, come back and change places, and every promise is kept. A consumer
// follows, and one with a filter of which little is said.
func configured(t *testing.T) *robustness.History {
	s := newScript(t, "file", "api")
	s.start(false, "i1", 0)
	s.set("file", "a: web(uid=u1)", 1)
	s.set("api", "x: web(uid=w1) job(uid=j1)", 2)
	s.configure(3, "api", "http")
	s.configure(4, "http", "file", "api")
	s.configure(4, "http", "file", "api")
	s.set("file", "", 5)

	c := s.consumer("exact")
	s.reads(c, 1, reference(nil), `
		SYNCED file api #0
		ADD file! @1 web(uid=u1) #1
		ADD api! @2 job(uid=j1) #2
		REMOVE file! @3 web(uid=u1) +
		ADD api! @3 web(uid=w1) #3
		HEARTBEAT 3 api! http
		HEARTBEAT 4 http file api! #4
		ADD file! @6 #5`)

	c = s.consumer("filtering")
	req := reference(nil)
	req.Filter = &podconfigv1.PodFilter{Sources: []string{"file"}}
	s.reads(c, 1, req, `
		ADD file! web(uid=u1) #2
		SYNCED file! #2
		REMOVE file! @3 web(uid=u1) #3
		HEARTBEAT 3
		HEARTBEAT 4 file #4
		ADD file! @6 #5`)
	return &s.history
}

// TestConfigured: no checker finds anything where nothing is wrong, and each way to spoil it is found by one.
func TestConfigured(t *testing.T) {
	if err := robustness.Check(configured(t)); err != nil {
		t.Fatalf("a history that keeps every promise:\n%v", err)
	}
	for _, tc := range []struct {
		name, promise, says string
		spoil               func(damage)
	}{
		{"the list of sources is missing", "Ready", "was told", func(d damage) { d.drop(0, 0, 5, 7) }},
		{"not even who sees little of it", "Ready", "was told", func(d damage) { d.drop(1, 0, 3, 5) }},
		{"another order is told", "Ready", "not in its place", func(d damage) {
			slices.Reverse(d.message(0, 0, 6).GetHeartbeat().GetSources())
		}},
		{"a source that is back is ready at once", "Ready", "ready=true", func(d damage) {
			d.message(0, 0, 6).GetHeartbeat().GetSources()[1].Ready = true
		}},
		{"the REMOVEs of a source that went deny that it was ready", "Ready", "source_ready=false; want true", func(d damage) {
			d.message(0, 0, 3).GetUpdate().SourceReady = false
		}},
		{"a pod of the source that went stays", "Reliable", "holds u1", func(d damage) {
			d.drop(0, 0, 3, 4)
			d.stream(0, 0).Received = d.stream(0, 0).Received[:4]
			d.stream(0, 0).Drained = false
		}},
		{"what waited doesn't come", "Atomic", "lacks w1", func(d damage) {
			d.message(0, 0, 3).Continued, d.message(0, 0, 3).Cursor = false, cursor(3)
			d.stream(0, 0).Received = d.stream(0, 0).Received[:4]
			d.stream(0, 0).Drained = false
		}},
		{"other sources make no revision", "Reliable", "want a revision", func(d damage) { d.Steps[3].Revision = 2 }},
		{"the same sources make one", "Minimal", "want silence", func(d damage) { d.Steps[5].Revision = 5 }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := configured(t)
			tc.spoil(damage{h})
			breaches := robustness.Breaches(h)
			i := slices.IndexFunc(breaches, func(b *robustness.BreachError) bool { return b.Promise == tc.promise })
			if i < 0 || !strings.Contains(breaches[i].Error(), tc.says) {
				t.Errorf("found is %v; want %s to be broken, with the words %q", breaches, tc.promise, tc.says)
			}
		})
	}
}
