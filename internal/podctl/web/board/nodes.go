package board

import (
	"cmp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/internal/podctl/web/plaintext"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// maxNodes bounds the nodes of one consumer's filter.
const maxNodes = 10_000

// nodesOf returns the nodes that a consumer serves: those of its filter, or the one of its certificate.
func nodesOf(c *podconfigv1.Consumer) []string {
	if nodes := c.GetFilter().GetNodes(); len(nodes) > 0 {
		return nodes[:min(len(nodes), maxNodes)]
	}
	if node, ok := strings.CutPrefix(c.GetIdentity(), "system:node:"); ok {
		return []string{node}
	}
	return nil
}

// states are the consumers' states, the most advanced one last.
var states = []string{"", "GONE", "PARKED", "CATCHING_UP", "LIVE"}

// report adds a consumer to the row of its node. The most advanced consumer is what the node follows: one that has gone may
// be the same node before it moved. refused is the number of pods that the consumer refused.
func report(row *podwebv1.NodeRow, c *podwebv1.ConsumerRow, refused int) *podwebv1.NodeRow {
	if row == nil {
		row = &podwebv1.NodeRow{}
	}
	if len(row.GetConsumers()) < maxRefusals {
		row.Consumers = append(row.Consumers, c.GetName())
	}
	advance := cmp.Compare(slices.Index(states, c.GetState()), slices.Index(states, row.GetState()))
	if advance < 0 || advance == 0 && c.GetLagRevisions() >= row.GetLagRevisions() && len(row.GetConsumers()) > 1 {
		return row
	}
	row.State, row.LagRevisions, row.LaggingSince = c.GetState(), c.GetLagRevisions(), c.GetLaggingSince()
	row.RefusedPods, row.Refusals = int32(refused), c.GetRefusals() //nolint:gosec // A message has fewer.
	row.Rejected, row.HeldSources = c.GetRejected(), c.GetHeldSources()
	return row
}

// showNode updates the row of a node. The caller holds b.mu.
func (b *Board) showNode(node string) {
	pods, reported := b.nodePods[node], b.nodeReports[node]
	key := Key("node", node)
	if pods == 0 && reported == nil {
		b.Nodes.Remove(key)
		return
	}
	row := &podwebv1.NodeRow{}
	if reported != nil {
		row = proto.CloneOf(reported)
	}
	row.Key, row.Name, row.DesiredPods = key, plaintext.Line(node, plaintext.Name), int32(min(pods, maxPods)) //nolint:gosec // It is bounded.
	row.Health = nodeHealth(row)
	b.Nodes.Put(key, row)
}

// nodeHealth returns the state of a node in one word.
func nodeHealth(r *podwebv1.NodeRow) podwebv1.Health {
	switch {
	case r.GetName() == "":
		return podwebv1.Health_HEALTH_UNSPECIFIED // Pods that have no node.
	case r.GetRefusedPods() > 0, r.GetRejected(), len(r.GetHeldSources()) > 0, r.GetState() == "GONE", r.GetState() == "PARKED":
		return podwebv1.Health_HEALTH_BAD
	case r.GetState() == "":
		return podwebv1.Health_HEALTH_UNKNOWN // No consumer serves it.
	case r.GetState() == "CATCHING_UP", r.GetLagRevisions() > 0:
		return podwebv1.Health_HEALTH_WORKING
	}
	return podwebv1.Health_HEALTH_GOOD
}
