package robustness

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// restart replaces the consumer's request: another mode, filter or format.
func (c *consumer) restart(ch chance) {
	c.mode = podconfigv1.NotificationMode(pick(ch, "mode", 1, 0, 1, 2, 3))
	c.format = podconfigv1.PodFormat(pick(ch, "format", 3, 2, 3, 1, 2))
	c.filter = nil
	if oneIn(ch, 2, "filtered") {
		c.filter = filter(ch)
	}
}

func filter(ch chance) *podconfigv1.PodFilter {
	f := &podconfigv1.PodFilter{}
	for range 1 + ch.intn(2, "more fields") {
		switch ch.intn(6, "field") {
		case 0, 1:
			f.LabelSelector = pick(ch, "selector", "tier=a", "tier!=a", "tier in (b)")
		case 2:
			f.Nodes = []string{pick(ch, "node", "node-0", "node-1")}
		case 3:
			f.Sources = pick(ch, "sources", []string{"file"}, []string{"api"}, []string{"api", "http"})
		case 4:
			f.Names = pick(ch, "names", []string{"n0", "n1"}, []string{"n2"}, []string{"s0", "n0", "n3"})
		default:
			f.Namespaces = []string{pick(ch, "namespace", "default", "kube")}
		}
	}
	return f
}

// request returns the consumer's next request: with nothing, with a cursor, with known pods, or with both.
// Afterwards the consumer has the pods that it sent. The random decisions don't depend on what the consumer has
// received, so that a run can be repeated even if the messages differ a little.
func (c *consumer) request(ch chance) *podconfigv1.WatchPodUpdatesRequest {
	how, which := ch.intn(10, "how to come back"), ch.intn(savedPlaces, "which cursor")
	reports := oneIn(ch, 2, "tells what it holds")
	if how == 9 {
		c.restart(ch)
	}
	req := &podconfigv1.WatchPodUpdatesRequest{
		Consumer: c.name, Mode: c.mode, Format: c.format, Filter: c.filter, HeartbeatInterval: durationpb.New(time.Second),
	}
	if how == 6 || len(c.saved) == 0 {
		c.holds = newReplica()
		return req
	}
	last := c.saved[len(c.saved)-1]
	switch how {
	default: // from its last cursor, or with the pods that it has, if its view has changed
		c.holds, req.ResumeAfter = last.held.clone(), last.cursor
	case 3, 4:
		older := c.saved[which%len(c.saved)]
		c.holds, req.ResumeAfter = older.held.clone(), older.cursor
	case 5:
		req.KnownPods = c.known()
		for i, k := range req.GetKnownPods() {
			switch (i + which) % 4 {
			case 1:
				k.SpecDigest = ""
			case 2:
				k.StatusDigest = ""
			case 3:
				k.Namespace, k.Name = "", ""
			}
		}
		c.holds.claims(req.GetKnownPods())
		return req
	case 7:
		req.ResumeAfter = proto.CloneOf(last.cursor)
		if req.ResumeAfter.Revision += 1_000_000; c.honest {
			req.ResumeAfter.InstanceId = "elsewhere"
		}
	case 8:
		req.ResumeAfter = proto.CloneOf(last.cursor)
		req.ResumeAfter.InstanceId = "elsewhere"
	}
	// The daemon can decide about pods that were undecided before its restart only if the consumer sends them
	// again.
	if reports || c.holds.undecided() {
		req.KnownPods = c.known()
	}
	return req
}
