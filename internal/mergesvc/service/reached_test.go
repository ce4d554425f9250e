package service_test

import (
	"testing"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestReachedWaitsForRevisions: a heartbeat that comes before revisions which are published already doesn't report their
// positions. A relay would pass them on, and tell its consumers that pods are gone which it only doesn't have yet.
func TestReachedWaitsForRevisions(t *testing.T) {
	g := startGateway(t, options{})
	g.set("file", "")
	g.follow(at("10"), at("12"), 0, "x: web(uid=u1)")
	slow := g.gated(reference(nil))
	reported := func(h interface {
		GetPositions() []*podconfigv1.SourcePosition
	}, want string) {
		t.Helper()
		if list := h.GetPositions(); len(list) != 1 || list[0].GetResourceVersion() != want {
			t.Errorf("%v reports the positions %v; want version %s", h, list, want)
		}
	}
	for slow.waits().GetSynced() == nil {
		slow.take()
	}
	slow.take()
	g.set("file", "a: static()")
	slow.waits()
	g.configure("api", "file")
	g.follow(at("20"), at("25"), 0, "x: web(uid=u1) db()")
	slow.take()
	m := slow.waits()
	if reported(m.GetHeartbeat(), "10"); m.GetHeartbeat().GetRevision() >= g.hub.History().Number() {
		t.Fatalf("%v is at the last revision; want it to be before", m)
	}
	slow.take()
	if op := slow.waits().GetUpdate(); op.GetOp() != podconfigv1.PodOperation_POD_OPERATION_ADD || op.GetSource() != "api" {
		t.Fatalf("after it comes %v; want the new pod", op)
	}
	g.configure("api", "http", "file")
	slow.take()
	reported(slow.waits().GetHeartbeat(), "25")
	slow.take()
}
