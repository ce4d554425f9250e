package robustness_test

import (
	"slices"
	"strings"
	"testing"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/robustness"
)

// configure gives the daemon these sources. It is then at the given revision of instance i1.
func (s *script) configure(revision uint64, sources ...string) {
	s.second++
	s.step(robustness.Step{Configure: sources, Instance: "i1", Revision: revision})
}

// configured returns a history in which sources are removed, added again and reordered, and every promise is
// kept. One consumer has no filter; another one has a filter that lets little through.
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

// TestConfigured checks that no checker reports a correct history, and that each change to it is found by the
// checker of the promise that it breaks.
func TestConfigured(t *testing.T) {
	if err := robustness.Check(configured(t)); err != nil {
		t.Fatalf("a history that keeps every promise:\n%v", err)
	}
	for _, tc := range []struct {
		name, promise, says string
		spoil               func(damage)
	}{
		{"the list of sources is missing", "Ready", "received", func(d damage) { d.drop(0, 0, 5, 7) }},
		{"the list of sources is missing for a consumer with a filter", "Ready", "received", func(d damage) { d.drop(1, 0, 3, 5) }},
		{"the list has another order", "Ready", "not in its place", func(d damage) {
			slices.Reverse(d.message(0, 0, 6).GetHeartbeat().GetSources())
		}},
		{"a source that is added again is ready at once", "Ready", "ready=true", func(d damage) {
			d.message(0, 0, 6).GetHeartbeat().GetSources()[1].Ready = true
		}},
		{"the REMOVEs of a removed source say that it wasn't ready", "Ready", "source_ready=false; want true", func(d damage) {
			d.message(0, 0, 3).GetUpdate().SourceReady = false
		}},
		{"a pod of the removed source stays", "Reliable", "holds u1", func(d damage) {
			d.drop(0, 0, 3, 4)
			d.stream(0, 0).Received = d.stream(0, 0).Received[:4]
			d.stream(0, 0).Drained = false
		}},
		{"a pod that waited isn't added", "Atomic", "lacks w1", func(d damage) {
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
				t.Errorf("the breaches are %v; want %s with %q", breaches, tc.promise, tc.says)
			}
		})
	}
}
