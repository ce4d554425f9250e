package service_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// configure replaces the sources of the node.
func (n *node) configure(names ...string) {
	sources := make([]merge.Source, 0, len(names))
	for _, name := range names {
		sources = append(sources, merge.Source{Name: name})
	}
	n.hub.Configure(sources)
}

// wantList reads the next message, which must be a heartbeat at that revision with exactly these sources, ready
// ones with "!". It has a cursor only if the revision has no ops for the consumer.
func (s *stream) wantList(revision uint64, moves bool, sources ...string) {
	s.t.Helper()
	m := s.next()
	h := m.GetHeartbeat()
	var got []string
	for _, src := range h.GetSources() {
		got = append(got, src.GetName()+map[bool]string{true: "!"}[src.GetReady()])
	}
	if h == nil || h.GetRevision() != revision || strings.Join(got, " ") != strings.Join(sources, " ") {
		s.t.Fatalf("the next message is %v; want a heartbeat at revision %d with the sources %v", m, revision, sources)
	}
	if (m.GetCursor() != nil) != moves || moves && m.GetCursor().GetRevision() != revision {
		s.t.Errorf("the heartbeat at revision %d has the cursor %v; want one if and only if the revision held nothing else", revision, m.GetCursor())
	}
}

// TestSourcesChange: each consumer receives the ops of a revision that changes the sources, and at once a
// heartbeat with the sources that it sees, even if there are no ops for it.
func TestSourcesChange(t *testing.T) {
	n := start(t, options{})
	n.set("file", "a: web()")
	n.set("api", "x: web(uid=u1) job()")
	all, updates := n.watch(reference(nil)), n.watch(in(snapshotAndUpdates, nil))
	some := n.watch(filtered(&podconfigv1.PodFilter{Names: []string{"job"}}, nil))
	apis := n.watch(filtered(&podconfigv1.PodFilter{Sources: []string{"api", "late"}}, nil))
	all.want("ADD file: web", "ADD api: job")
	all.want("synced")
	updates.want("SET file: job web", "synced")
	some.want("ADD api: job")
	some.want("synced")
	apis.want("ADD api: job")
	apis.want("synced")

	n.configure("api", "http")
	u := all.want("REMOVE file: web", "ADD api: u1")
	if first := u.messages[0].GetUpdate(); !first.GetSourceReady() || first.GetObservedTime() == nil {
		t.Errorf("the REMOVE says source_ready=%v, observed at %v; want a source that was ready, at some time", first.GetSourceReady(), first.GetObservedTime())
	}
	all.wantList(3, false, "api!", "http")
	updates.want("REMOVE file: web", "SET : job u1")
	updates.wantList(3, false, "api!", "http")
	some.wantList(3, true, "api!", "http")
	// The sources that it sees are unchanged.
	apis.want("ADD api: u1")

	n.configure("late", "http", "api")
	all.wantList(4, true, "late", "http", "api!")
	updates.wantList(4, true, "late", "http", "api!")
	some.wantList(4, true, "late", "http", "api!")
	apis.wantList(4, true, "late", "api!")

	n.configure("http")
	all.want("REMOVE api: u1 job")
	all.wantList(5, false, "http")
	updates.want("REMOVE api: u1 job", "SET :")
	updates.wantList(5, false, "http")
	some.want("REMOVE api: job")
	some.wantList(5, false, "http")
	apis.want("REMOVE api: u1 job")
	apis.wantList(5, false)
	resumed := n.watch(reference(u.cursor))
	resumed.want("REMOVE api: u1 job")
	resumed.want("synced")
}

// TestResumeOverOtherSources: a consumer that was away while sources changed receives the revisions, and the
// current sources in synced. A connected consumer that fell behind receives them at once.
func TestResumeOverOtherSources(t *testing.T) {
	for name, revisions := range map[string]int{"exact": 10, "coalesced": 1} {
		t.Run(name, func(t *testing.T) {
			n := start(t, options{revisions: revisions})
			n.set("file", "a: web()")
			n.set("api", "x: job()")
			s := n.watch(reference(nil))
			s.want("ADD file: web", "ADD api: job")
			at := s.want("synced").cursor
			n.configure("file")
			n.configure("http", "file")
			n.set("file", "a: web(image=2)")
			s = n.watch(reference(at))
			if name == "exact" {
				s.want("REMOVE api: job")
				s.want("UPDATE file: web")
			} else {
				s.want("REMOVE api: job", "UPDATE file: web")
			}
			m := s.next().GetSynced()
			if len(m.GetSources()) != 2 || m.GetSources()[0].GetName() != "http" || m.GetSources()[0].GetReady() || !m.GetSources()[1].GetReady() {
				t.Errorf("synced lists %v; want http, which isn't ready, and file, which is", m.GetSources())
			}
			n.set("http", "")
			s.want("ADD http:")
		})
	}
}

// TestFellBehindOverOtherSources: a consumer that doesn't read while sources change, and revisions leave the
// history, receives the sources right after its catch-up.
func TestFellBehindOverOtherSources(t *testing.T) {
	n := start(t, options{revisions: 1})
	n.set("file", "a: web()")
	n.set("api", "x: job()")
	slow := n.gated(reference(nil))
	for _, what := range []string{"file's ADD", "api's ADD", "synced"} {
		if m := slow.waits(); m.GetHeartbeat() != nil {
			t.Fatalf("the first message is %v; want %s", m, what)
		}
		slow.take()
	}
	n.set("file", "a: web(image=2)")
	slow.waits()
	n.configure("api", "file")
	n.configure("http", "file")
	n.set("file", "a: web(image=3)")
	slow.take()
	for _, op := range []podconfigv1.PodOperation{podconfigv1.PodOperation_POD_OPERATION_REMOVE, podconfigv1.PodOperation_POD_OPERATION_UPDATE} {
		m := slow.waits().GetUpdate()
		if m.GetOp() != op || m.GetObservedTime() != nil || !m.GetSourceReady() {
			t.Fatalf("it is caught up by %v; want %v of a catch-up, by a source that is ready or was when it went", m, op)
		}
		slow.take()
	}
	h := slow.waits().GetHeartbeat()
	if h.GetRevision() != 6 || len(h.GetSources()) != 2 || h.GetSources()[0].GetName() != "http" {
		t.Errorf("the catch-up is followed by %v; want a heartbeat with http and file", h)
	}
	slow.take()
}

// TestKnownPodsOfASourceThatGoes: known pods of a removed source, which podconfigd doesn't have, are removed
// once all other sources were read.
func TestKnownPodsOfASourceThatGoes(t *testing.T) {
	n := start(t, options{})
	n.set("file", "")
	s := n.watch(reference(nil, &podconfigv1.KnownPod{Uid: "lost", Source: "api"}))
	s.want("synced")
	n.configure("file")
	s.want("REMOVE api: lost")
	s.wantList(2, false, "file!")
}

// TestLists: the other calls follow the configuration too.
func TestLists(t *testing.T) {
	n := start(t, options{diff: true})
	n.set("file", "a: web()")
	n.set("api", "x: web(uid=u1)")
	n.configure("http", "api")
	resp, err := n.api.ListSources(t.Context(), &podconfigv1.ListSourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.GetSources(); len(got) != 2 || got[0].GetName() != "http" || got[1].GetName() != "api" || got[1].GetPodCount() != 1 {
		t.Errorf("ListSources lists %v; want http and then api, with a pod", got)
	}
	_, err = n.api.DiffManifests(t.Context(), &podconfigv1.DiffManifestsRequest{Source: "file"})
	if status.Code(err) != codes.NotFound {
		t.Errorf("DiffManifests of a removed source fails with %v; want NOT_FOUND", err)
	}
}

// TestConflictIsListed: a pod that waits for another source's pod is a finding of its own source, until it is
// served.
func TestConflictIsListed(t *testing.T) {
	for _, text := range []string{"x: web(uid=u1)", "x: job(uid=web)"} {
		n := start(t, options{})
		n.set("api", text)
		n.set("file", "a: web()")
		check := func(waits string, want int) {
			t.Helper()
			for name, src := range n.sources() {
				conflicts := 0
				for _, f := range src.GetFindings() {
					if f.GetSeverity() == podconfigv1.FindingSeverity_FINDING_SEVERITY_CONFLICT {
						conflicts++
					}
				}
				if wanted := map[bool]int{true: want}[name == waits]; conflicts != wanted {
					t.Errorf("%s: %s has %d conflicts; want %d", text, name, conflicts, wanted)
				}
			}
		}
		check("api", 1)
		n.configure("api", "file")
		check("file", 1)
		n.configure("file")
		check("file", 0)
	}
}

// TestScopedListOfSources: a caller that may not see a source doesn't receive its addition or removal.
func TestScopedListOfSources(t *testing.T) {
	n := start(t, options{hub: func(cfg *mergesvc.Config) { cfg.Sources = []merge.Source{{Name: "file"}, {Name: "api"}} }})
	s := n.as(access.Caller{Identity: "tenant", Role: access.Consumer, Sources: []string{"api"}}).watch(reference(nil))
	s.want("synced")
	n.configure("api")
	n.configure("secret", "api")
	n.set("api", "x: job()")
	s.want("ADD api: job")
	n.configure("secret")
	s.want("REMOVE api: job")
	s.wantList(4, false)
}

// TestWordOfASourceThatGoes: the REMOVEs of a removed source report its readiness, to a consumer that follows and to
// one that resumes.
func TestWordOfASourceThatGoes(t *testing.T) {
	for text, ready := range map[string]bool{"a: web()": true, "a: web()\nb: [held]": false} {
		n := start(t, options{})
		n.set("file", text)
		s := n.watch(reference(nil))
		s.want("ADD file: web")
		at := s.want("synced").cursor
		n.configure("api")
		for who, s := range map[string]*stream{"follows": s, "resumes": n.watch(reference(at))} {
			if m := s.want("REMOVE file: web").messages[0].GetUpdate(); m.GetSourceReady() != ready {
				t.Errorf("a consumer that %s receives %v; want source_ready=%v", who, m, ready)
			}
		}
	}
}
