package cluster

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

// By default the measurements are short ones, which fail on gross errors only. make bench-fleet has larger values.
var (
	fleetNodes = flag.String("fleet-nodes", "30", "`numbers` of nodes that are measured, with commas between")
	fleetPods  = flag.Int("fleet-pods", 5, "`number` of pods on each node")
	fleetRate  = flag.Int("fleet-rate", 50, "`number` of changes in a second")
	fleetTime  = flag.Duration("fleet-time", 3*time.Second, "how `long` changes are measured")
)

// counts returns the numbers of -fleet-nodes.
func counts(t *testing.T) (out []int) {
	t.Helper()
	for text := range strings.SplitSeq(*fleetNodes, ",") {
		out = append(out, rig.Get(strconv.Atoi(text))(t))
	}
	return out
}

// newFleetGateway starts a gateway that serves the nodes over TCP, with the limits of a large fleet behind one address.
func newFleetGateway(t *testing.T, name string, args ...string) (g *gateway, address string) {
	t.Helper()
	g = &gateway{node: &node{name: name, user: "podconfigd-" + name, group: fleetGroup}}
	port := rig.Get(control.FreePorts(1))(t)[0]
	dir := t.TempDir()
	serving, access := dir+"/serving.pem", dir+"/access.yaml"
	rig.Must(t, control.ReplaceFile(serving, rig.Get(plane.Authority.Issue(name, "servers", time.Now().Add(control.CertificateLife)))(t)))
	rig.Must(t, control.ReplaceFile(access, []byte("clients:\n- {systemNodes: true, role: consumer}\n")))
	g.args = []string{
		"--nodes=*", fmt.Sprintf("--listen=tcp://%s:%d", control.Loopback, port), "--access-file=" + access, "--tls-cert-file=" + serving,
		"--tls-private-key-file=" + serving, "--client-ca-file=" + plane.Authority.File, "--node-client-ca-file=" + plane.Authority.File,
		"--max-connections-per-peer=8192", "--max-calls-per-peer=16384", "--max-requests-per-second=8192",
	}
	g.args = append(g.args, args...)
	g.cgroup = newCgroup(t, name)
	g.launch(t, time.Now().Add(control.CertificateLife))
	g.cgroup.add(t, g.daemon)
	return g, fmt.Sprintf("tcp://%s:%d", control.Loopback, port)
}

// TestFleetChanges measures what a change of a pod costs a gateway, and how long it takes to the node: with each number of
// nodes the pods and the rate of changes are the same for each node, or in all, as the flags say.
func TestFleetChanges(t *testing.T) {
	allowGateways(t)
	kube := fleetClient(t)
	changes := int(fleetTime.Seconds() * float64(*fleetRate))
	for _, nodes := range counts(t) {
		check(t, fmt.Sprintf("%d nodes", nodes), func(t *testing.T) {
			prefix := fmt.Sprintf("changes%d", nodes)
			names := populate(t, kube, prefix, nodes, *fleetPods)
			begun := time.Now()
			g, address := newFleetGateway(t, prefix)
			rig.Must(t, control.Until(t.Context(), g.daemon, "the source is ready", func(ctx context.Context) error {
				s, err := g.source(ctx)
				if err == nil && !s.GetReady() {
					err = fmt.Errorf("%w: %v", control.ErrNotYet, s)
				}
				return err
			}))
			read := time.Since(begun)
			begun = time.Now()
			c := startCrowd(t, prefix, nodes, changes, address)
			started := time.Since(begun)
			synced := c.await(t, *fleetPods, 2*time.Minute)
			t.Logf("%d nodes with %d pods: the gateway has read them %v after its start; the nodes start within %v, and are in sync after %v", nodes,
				len(names), read.Round(time.Millisecond), started.Round(time.Millisecond), synced.Sub(begun).Round(time.Millisecond))
			before := usageOf(t, g)
			time.Sleep(*fleetTime / 2) // It is what the gateway uses without changes.
			idle := usageOf(t, g).since(before)
			sent := make([]time.Duration, changes)
			before = usageOf(t, g)
			begun = time.Now()
			var writers sync.WaitGroup
			const writing = 4
			for w := range writing {
				writers.Go(func() {
					ticker := time.NewTicker(time.Second * writing / time.Duration(*fleetRate))
					defer ticker.Stop()
					for i := w; i < changes; i += writing {
						<-ticker.C
						patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}}}`, sequence, i)
						_, err := kube.CoreV1().Pods(namespace).Patch(t.Context(), names[i*7919%len(names)], types.MergePatchType, []byte(patch), metav1.PatchOptions{})
						if err != nil {
							t.Error(err)
							return
						}
						sent[i] = time.Since(c.began)
					}
				})
			}
			writers.Wait()
			took := time.Since(begun)
			used := usageOf(t, g).since(before)
			rig.Must(t, control.Until(t.Context(), g.daemon, "all changes have arrived", func(context.Context) error {
				for i := range c.arrived {
					if c.arrived[i].Load() == 0 {
						return fmt.Errorf("%w: change %d", control.ErrNotYet, i)
					}
				}
				return nil
			}))
			ownIdle := time.Duration(float64(idle.cpu) * took.Seconds() / (fleetTime.Seconds() / 2))
			perChange := float64((used.cpu - ownIdle).Microseconds()) / float64(changes)
			var latencies []time.Duration
			for i := range c.arrived {
				latencies = append(latencies, max(0, time.Duration(c.arrived[i].Load())-sent[i]))
			}
			slices.Sort(latencies)
			at := func(part float64) time.Duration {
				return latencies[int(part*float64(len(latencies)-1))].Round(10 * time.Microsecond)
			}
			delay := fmt.Sprintf("p50 %v, p99 %v", at(0.5), at(0.99))
			if used.queued() > 0.1 {
				delay = "not counted, as the gateway waited for processors (" + delay + ")"
			}
			t.Logf("%d nodes, %d pods, %.0f changes/s: %.0f µs CPU a change; latency %s; idle %.1f%% of a core; %d MiB, at most %d MiB; run queue %.0f%%",
				nodes, len(names), float64(changes)/took.Seconds(), perChange, delay, 100*idle.cpu.Seconds()/(fleetTime.Seconds()/2),
				used.memory>>20, used.peak>>20, 100*used.queued())
			if c.removed.Load() != 0 {
				t.Errorf("%d pods were removed", c.removed.Load())
			}
			if perChange > 20_000 || used.peak > 4<<30 {
				t.Error("that is more than ten times the aim")
			}
		})
	}
}

// TestFleetFailover measures how long it takes until all nodes are in sync with another gateway after theirs was killed.
func TestFleetFailover(t *testing.T) {
	allowGateways(t)
	kube := fleetClient(t)
	for _, nodes := range counts(t) {
		check(t, fmt.Sprintf("%d nodes", nodes), func(t *testing.T) {
			prefix := fmt.Sprintf("failover%d", nodes)
			populate(t, kube, prefix, nodes, *fleetPods)
			first, address := newFleetGateway(t, prefix+"a")
			second, other := newFleetGateway(t, prefix+"b")
			c := startCrowd(t, prefix, nodes, 0, address+","+other)
			c.await(t, *fleetPods, 2*time.Minute)
			before := usageOf(t, second)
			id := strings.TrimSpace(string(rig.Get(os.ReadFile(first.path("root/podconfigd-id")))(t)))
			var moving []*member
			for _, m := range c.members {
				m.mu.Lock()
				if m.at == id {
					moving = append(moving, m)
				}
				m.mu.Unlock()
			}
			if len(moving) < nodes/2 {
				t.Errorf("%d of %d nodes follow the gateway that is first in their list", len(moving), nodes)
			}
			c.timeouts.Store(0)
			killed := time.Now()
			first.daemon.Kill()
			rig.Must(t, control.Until(t.Context(), second.daemon, "all nodes have noticed", func(context.Context) error {
				for _, m := range moving {
					m.mu.Lock()
					noticed := m.at != id || m.synced.IsZero()
					m.mu.Unlock()
					if !noticed {
						return fmt.Errorf("%w: node %s", control.ErrNotYet, m.node)
					}
				}
				return nil
			}))
			took := c.await(t, *fleetPods, 2*time.Minute).Sub(killed)
			used := usageOf(t, second).since(before)
			t.Logf("%d nodes: %d moved, all in sync %v after their gateway was killed; %.1f ms CPU a node; %d connections timed out; run queue %.0f%%; %d MiB",
				nodes, len(moving), took.Round(time.Millisecond), float64(used.cpu.Microseconds())/1000/float64(nodes), c.timeouts.Load(), 100*used.queued(), used.memory>>20)
			if c.removed.Load() != 0 {
				t.Errorf("%d pods were removed", c.removed.Load())
			}
			if took > time.Minute {
				t.Error("that is more than five times the aim for 3,000 nodes")
			}
			first.start(t)
		})
	}
}
