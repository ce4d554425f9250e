package cluster

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/podstream/podstream/client"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

// near reports whether the gateways have as many nodes as before, within 5% or 2 nodes: at first, when all nodes connect at
// once, a few may not have got the gateway that they prefer.
func near(now, before map[string]int) bool {
	for name, n := range before {
		if math.Abs(float64(now[name]-n)) > max(2, 0.05*float64(n)) {
			return false
		}
	}
	return true
}

// TestFleetRollout: three gateways are restarted one after another. The last one has almost no nodes then. Ten minutes later,
// of which each takes 3 s here, the nodes are where they were before: within 20% of each other, as far as so few can be.
func TestFleetRollout(t *testing.T) {
	const age, factor = 12 * time.Second, 20 // instead of 4 min
	const limit = 10 * time.Minute / factor
	allowGateways(t)
	kube := fleetClient(t)
	for _, nodes := range counts(t) {
		check(t, fmt.Sprintf("%d nodes", nodes), func(t *testing.T) {
			prefix := fmt.Sprintf("rollout%d", nodes)
			populate(t, kube, prefix, nodes, 1)
			var gateways []*gateway
			var endpoints []string
			for i := range 3 {
				g, endpoint := newFleetGateway(t, fmt.Sprintf("%s-%c", prefix, 'a'+i))
				gateways, endpoints = append(gateways, g), append(endpoints, endpoint)
			}
			all := make([]*hollow, nodes)
			dir := t.TempDir()
			for i := range all {
				all[i] = newHollow(fmt.Sprintf("%s-%d", prefix, i))
				all[i].connect(t, client.Config{
					Endpoint: strings.Join(endpoints, ","), SpreadKey: all[i].node, TLS: nodeTLS(t, dir, all[i].node), ReturnAfter: age,
				})
			}
			t.Cleanup(func() {
				for _, n := range all {
					n.leave()
				}
			})
			// spread returns the numbers of the gateways' nodes, once all nodes have a gateway and their pods.
			spread := func() map[string]int {
				out := map[string]int{}
				rig.Must(t, control.Until(t.Context(), nil, "all nodes have a gateway", func(ctx context.Context) error {
					clear(out)
					sum := 0
					for _, g := range gateways {
						list, err := g.config.ListConsumers(ctx, &podconfigv1.ListConsumersRequest{}, grpc.WaitForReady(true))
						if err != nil {
							return err
						}
						out[g.name] = len(list.GetConsumers())
						sum += out[g.name]
					}
					if sum != nodes {
						return fmt.Errorf("%w: the gateways have %v", control.ErrNotYet, out)
					}
					return nil
				}))
				for _, n := range all {
					n.await(t, "it has its pod", func() bool { return n.ready && n.held == "" && len(n.pods) == 1 })
				}
				return out
			}
			first := spread()
			for _, g := range gateways {
				rig.Must(t, g.daemon.Stop())
				g.start(t)
				g.awaitSource(t, false, nodes)
				spread()
			}
			begun, after := time.Now(), spread()
			if last := gateways[2].name; after[last] > nodes/4 {
				t.Errorf("after the rollout the gateways have %v nodes; the test needs few at %s", after, last)
			}
			var now map[string]int
			for now = spread(); !near(now, first) && time.Since(begun) < limit; now = spread() {
				time.Sleep(100 * time.Millisecond)
			}
			t.Logf("%d nodes: %v at first, %v after the rollout, %v after %.1f minutes (%d times as fast)",
				nodes, first, after, now, time.Since(begun).Minutes()*factor, factor)
			if !near(now, first) {
				t.Errorf("ten minutes after the rollout the gateways have %v nodes; want %v", now, first)
			}
			mean := float64(nodes) / 3
			// With few nodes, the random part of a gateway is more than 20% away now and then: four standard deviations are once
			// in 10,000 times.
			for name, n := range now {
				if off := math.Abs(float64(n) - mean); off > max(0.2*mean/2, 4*math.Sqrt(mean*2/3)) {
					t.Errorf("gateway %s has %d nodes; want about %.0f", name, n, mean)
				}
			}
			for _, n := range all {
				if n.removed > 0 {
					t.Errorf("node %s was told to remove %d pods", n.node, n.removed)
				}
			}
		})
	}
}
