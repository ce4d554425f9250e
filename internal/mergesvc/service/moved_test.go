package service_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/service"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// movedTo starts a podconfigd with an ID, and returns a request of a consumer that comes from another one.
func movedTo(t *testing.T, pods ...string) (*node, *podconfigv1.WatchPodUpdatesRequest) {
	n := start(t, options{service: func(cfg *service.Config) {
		cfg.ID = "here"
		cfg.Accept = func(source string) (string, error) {
			switch source {
			case "api":
				return "the source is of cluster c2", nil
			default:
				return "", nil
			}
		}
	}})
	n.set("api", "")
	req := reference(&podconfigv1.Cursor{InstanceId: "another", Revision: 3, PodconfigdId: "there"})
	for _, uid := range pods {
		req.KnownPods = append(req.KnownPods, &podconfigv1.KnownPod{Source: "file", Uid: uid, Namespace: "default", Name: uid, SpecDigest: "old"})
	}
	return n, req
}

func (u unit) held(source string) string {
	for _, s := range u.synced.GetSources() {
		if s.GetName() == source {
			return s.GetHeldReason()
		}
	}
	return ""
}

// TestG11MoveReadsTwice: a consumer that comes from another podconfigd loses a pod of a file only after the source was read
// twice with the same result. A break of the stream meanwhile doesn't end that.
func TestG11MoveReadsTwice(t *testing.T) {
	n, req := movedTo(t, "a", "b", "c")
	n.set("file", "x: a() b()")
	s := n.watch(req)
	synced := s.want("synced")
	if got := synced.held("file"); !strings.Contains(got, "1 of its 3 pods") {
		t.Fatalf("file is held with %q; want that 1 of 3 pods would be lost", got)
	}
	again := reference(synced.cursor, req.GetKnownPods()...)
	second := n.watch(again)
	if got := second.want("synced").held("file"); got == "" {
		t.Errorf("file isn't held on the next stream, with the cursor %v", synced.cursor)
	}
	n.set("file", "x: a() b(image=2)")
	n.set("api", "y: other()")
	s.want("ADD api: other")
	n.set("file", "x: a() b(image=2)")
	u := s.want("REMOVE file: c", "UPDATE file: a b")
	if got := u.cursor.GetPodconfigdId(); got != "here" {
		t.Errorf("the cursor is of podconfigd %q; want here", got)
	}
}

// TestG11MoveOfMost: a move that would remove more than half of a source's pods waits until an administrator accepts it. A
// consumer whose pods are all there isn't held, nor one that comes from this podconfigd.
func TestG11MoveOfMost(t *testing.T) {
	n, req := movedTo(t, "a", "b", "c")
	n.set("file", "x: a()")
	s := n.watch(req)
	if got := s.want("synced").held("file"); !strings.Contains(got, "2 of its 3 pods") || !strings.Contains(got, "podctl sources accept file") {
		t.Fatalf("file is held with %q; want that 2 of 3 pods would be lost, and what to do", got)
	}
	for range 3 {
		n.set("file", "x: a()")
	}
	accept := func(source string, want codes.Code) *podconfigv1.AcceptSourceResponse {
		t.Helper()
		resp, err := n.api.AcceptSource(t.Context(), &podconfigv1.AcceptSourceRequest{Source: source})
		wantCode(t, "AcceptSource of "+source, err, want)
		return resp
	}
	accept("nothing", codes.NotFound)
	if got := accept("api", codes.OK).GetAccepted(); len(got) != 1 || got[0] != "the source is of cluster c2" {
		t.Errorf("accepted of api: %q", got)
	}
	n.set("api", "y: other()")
	s.want("ADD api: other")
	if got := accept("file", codes.OK).GetAccepted(); len(got) != 1 || !strings.Contains(got[0], "1 consumers") {
		t.Errorf("accepted of file: %q; want one consumer", got)
	}
	s.want("REMOVE file: b c", "UPDATE file: a")
	// That counts for the consumers of that time only.
	late := n.watch(req)
	late.want("ADD api: other")
	if late.want("synced").held("file") == "" {
		t.Error("a consumer that came after the acceptance isn't held")
	}
	late.cancel()
	until(t, "the stream has ended", func() bool { return len(n.consumers()) == 1 })
	accept("file", codes.FailedPrecondition)

	n.set("file", "x: a() b() c()")
	all := n.watch(req)
	all.want("ADD api: other", "UPDATE file: a b c")
	if got := all.want("synced").held("file"); got != "" {
		t.Errorf("a consumer that loses no pod is held: %s", got)
	}
	n.set("file", "x: a()")
	own := reference(&podconfigv1.Cursor{InstanceId: "another", PodconfigdId: "here"}, req.GetKnownPods()...)
	mine := n.watch(own)
	mine.want("REMOVE file: b c", "ADD api: other", "UPDATE file: a")
}

// TestG11Accepted: an administrator accepts a podconfigd whose cluster isn't the consumer's, and one that has no positions.
// The consumer then gets the difference, and a cursor that package client accepts.
func TestG11Accepted(t *testing.T) {
	g := startGateway(t, options{})
	g.set("file", "")
	other := at("5")
	other.Cluster = "d"
	g.follow(other, other, 0, "x: web(uid=u1)")
	s := g.watch(ahead(at("20"), "api/u2/db"))
	wantHeld(t, s.want("synced"), true)
	accept := func(behind bool) {
		t.Helper()
		resp, err := g.api.AcceptSource(t.Context(), &podconfigv1.AcceptSourceRequest{Source: "api", Behind: behind})
		wantCode(t, "AcceptSource", err, codes.OK)
		if got := resp.GetAccepted(); len(got) != 1 || !strings.Contains(got[0], "1 consumers") {
			t.Errorf("accepted: %q", got)
		}
	}
	accept(false)
	u := s.want("REMOVE api: u2", "ADD api: u1")
	if p := u.cursor.GetPositions(); len(p) != 1 || p[0].GetCluster() != "d" || !slices.Equal(p[0].GetReplacedClusters(), []string{"c"}) {
		t.Errorf("the positions are %v; want one of d, which replaces c", p)
	}

	g = startGateway(t, options{})
	g.set("file", "")
	g.set("api", "x: web(uid=u1)")
	s = g.watch(ahead(at("20"), "api/u2/db"))
	wantHeld(t, s.want("synced"), true)
	accept(true)
	wantPosition(t, s.want("REMOVE api: u2", "ADD api: u1"), "20", false)
}

// TestG11AcceptedUnready: the source isn't ready when it is accepted, so that no op comes. A heartbeat has the cursor that
// says that the consumer's cluster is replaced: the next stream isn't held.
func TestG11AcceptedUnready(t *testing.T) {
	path := t.TempDir() + "/store"
	g := startGateway(t, storedAt(path))
	g.set("file", "")
	other := at("5")
	other.Cluster = "d"
	g.follow(other, other, 0, "x: web(uid=u1)")
	again := startGateway(t, storedAt(copied(t, path)))
	again.set("file", "")
	s := again.watch(ahead(at("20"), "api/u1/web"))
	first := s.unit()
	for first.synced == nil {
		first = s.unit()
	}
	if first.held("api") == "" {
		t.Fatal("api isn't held")
	}
	if _, err := again.api.AcceptSource(t.Context(), &podconfigv1.AcceptSourceRequest{Source: "api"}); err != nil {
		t.Fatal(err)
	}
	var last *podconfigv1.Cursor
	for last == nil || last.GetPositions()[0].GetCluster() != "d" {
		last = s.unit().cursor
	}
	if p := last.GetPositions()[0]; len(p.GetReplacedClusters()) != 1 || !p.GetConfirmed() {
		t.Errorf("the position is %v; want it confirmed, and c replaced", p)
	}
	next := again.watch(reference(last, &podconfigv1.KnownPod{Source: "api", Uid: "u1", Namespace: "default", Name: "web"}))
	for u := next.unit(); ; u = next.unit() {
		if u.synced != nil {
			if reason := u.held("api"); reason != "" {
				t.Errorf("the next stream is held: %s", reason)
			}
			return
		}
	}
}

// TestG11Removed: a source that is removed from the configuration isn't held any more. Its pods are removed as for all
// consumers.
func TestG11Removed(t *testing.T) {
	g := startGateway(t, options{})
	g.set("file", "")
	g.follow(at("10"), at("12"), 0, "x: web(uid=u1)")
	s := g.watch(ahead(at("20"), "api/u2/db"))
	wantHeld(t, s.want("synced"), true)
	g.hub.Configure([]merge.Source{{Name: "file"}})
	for {
		m := s.next()
		if m.GetUpdate() == nil {
			continue
		}
		if m.GetUpdate().GetOp() != podconfigv1.PodOperation_POD_OPERATION_REMOVE || len(m.GetUpdate().GetPods()) != 1 ||
			m.GetUpdate().GetPods()[0].GetRef().GetUid() != "u2" || len(m.GetCursor().GetPositions()) != 0 {
			t.Fatalf("the consumer gets %v; want the REMOVE of u2, without positions", m)
		}
		return
	}
}

// TestAcceptFails: an error of the source is passed on; a caller whose scope is a node may not accept.
func TestAcceptFails(t *testing.T) {
	n := start(t, options{service: func(cfg *service.Config) {
		cfg.Accept = func(string) (string, error) { return "", errors.New("the disk is full") }
	}})
	_, err := n.api.AcceptSource(t.Context(), &podconfigv1.AcceptSourceRequest{Source: "api"})
	wantCode(t, "AcceptSource", err, codes.Internal)
	scoped := inspector
	scoped.Nodes = []string{"node1"}
	_, err = n.as(scoped).api.AcceptSource(t.Context(), &podconfigv1.AcceptSourceRequest{Source: "api"})
	wantCode(t, "AcceptSource with a scope", err, codes.PermissionDenied)
}
