package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/client/shard"
	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

// TestG11Shards: two gateways divide the nodes. A node whose gateway is killed, and which reaches only the one of the other shard,
// is told nothing by that one, and loses nothing. It goes on when its own is back.
func TestG11Shards(t *testing.T) {
	allowGateways(t)
	kube := fleetClient(t)
	const nodes, pods, prefix = 12, 2, "shards"
	populate(t, kube, prefix, nodes, pods)
	var gateways [2]*gateway
	var addresses [2]string
	for i := range gateways {
		gateways[i], addresses[i] = newFleetGateway(t, fmt.Sprintf("%s-%d", prefix, i), fmt.Sprintf("--shard=%d", i), "--total-shards=2")
	}
	both := &crowd{began: time.Now(), changed: make(chan struct{}, 1)}
	t.Cleanup(both.stop)
	// Other tests may have left pods, of other nodes.
	var shardPods [2]int
	list := rig.Get(kube.CoreV1().Pods(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName!="}))(t)
	for i := range list.Items {
		shardPods[shard.Of(list.Items[i].Spec.NodeName, 2)]++
	}
	moving := 0
	for i := range nodes {
		if shard.Of(fmt.Sprintf("%s-%d", prefix, i), 2) == 0 {
			moving++
		}
	}
	// A node that finds its own gateway not yet there takes the other one, and stays.
	gateways[0].awaitSource(t, false, shardPods[0])
	gateways[1].awaitSource(t, false, shardPods[1])
	for i := range nodes {
		node := fmt.Sprintf("%s-%d", prefix, i)
		own := shard.Of(node, 2)
		both.join(t, node, addresses[own]+","+addresses[1-own])
	}
	both.await(t, pods, time.Minute)
	if moving == 0 || moving == nodes {
		t.Fatalf("%d of %d nodes are in the first shard", moving, nodes)
	}
	// settle waits until the nodes of one shard are in sync, and those of the other one held.
	settle := func(what string, serves int) {
		t.Helper()
		rig.Must(t, control.Until(t.Context(), gateways[serves].daemon, what, func(context.Context) error {
			for _, m := range both.members {
				m.mu.Lock()
				held, synced, has := m.held, !m.synced.IsZero(), len(m.pods)
				m.mu.Unlock()
				if own := shard.Of(m.node, 2) == serves; held == own || synced != own || has != pods {
					return fmt.Errorf("%w: node %s, of this shard: %t, is held: %t, in sync: %t, with %d pods", control.ErrNotYet, m.node, own, held, synced, has)
				}
			}
			return nil
		}))
	}
	gateways[0].daemon.Kill()
	settle("the gateway of shard 1 holds the nodes of shard 0", 1)
	gateways[0].start(t)
	gateways[0].awaitSource(t, false, shardPods[0])
	gateways[1].daemon.Kill()
	settle("the gateway of shard 0 serves its nodes again, and holds the others", 0)
	gateways[1].start(t)
	gateways[1].awaitSource(t, false, shardPods[1])
	if n := both.removed.Load(); n != 0 {
		t.Errorf("%d pods were removed", n)
	}
	t.Logf("12 nodes of two shards, %d and %d: 0 pods removed while each gateway was away", moving, nodes-moving)
}
