package bench

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/mergesvc/nodeindex"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

const (
	// nodePods is the number of pods on all nodes together.
	nodePods = 5000
	// The two crowds of the measurement.
	ofOneNode      = "one node"
	ofAllRevisions = "all revisions"
)

// BenchmarkNodes measures what one change of a pod costs a podconfigd that serves 5,000 pods to many streams, each
// for the pods of one node. The cost should not depend on the number of streams, as the change concerns one of them.
// In turn with these it measures a crowd that also selects nodes without pods, so many that its streams read all
// revisions: then a change costs work for each stream. The figures are medians over the turns. It is one measurement,
// for any b.N.
func BenchmarkNodes(b *testing.B) {
	for _, streams := range []int{100, 300, 1000, 3000} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) { benchmarkNodes(b, streams) })
	}
}

func benchmarkNodes(b *testing.B, streams int) {
	needFiles(b, uint64(2*streams+256))
	crowds, changes := map[string]*crowd{}, map[string]int{}
	for _, of := range []string{ofOneNode, ofAllRevisions} {
		s := startServer(b, serverConfig{Variant: product, Pods: nodePods, Size: 2 << 10, Nodes: streams})
		crowds[of] = gatherFiltered(b, s, streams, protobufFormat, func(i int) *podconfigv1.PodFilter {
			nodes := []string{nodeName(i)}
			for n := range nodeindex.MaxNodes {
				if of == ofAllRevisions {
					nodes = append(nodes, fmt.Sprintf("empty-%d", n))
				}
			}
			return &podconfigv1.PodFilter{Nodes: nodes}
		})
	}
	blocks := map[string][]block{}
	for range fanOutCycles {
		for of, c := range crowds {
			k, next := c.measureNodes(b, changes[of])
			changes[of], blocks[of] = next, append(blocks[of], k)
		}
	}
	var table strings.Builder
	fmt.Fprintf(&table, "%-14s %16s %16s %10s %10s", "streams of", "cpu-µs/change", "allocs/change", "p50-ms", "p99-ms")
	for _, of := range []string{ofOneNode, ofAllRevisions} {
		fmt.Fprintf(&table, "\n%-14s", of)
		for i, v := range []func(block) float64{cpuOf, allocsOf, medianOf, slowestOf} {
			fmt.Fprintf(&table, " %*.2f", []int{16, 16, 10, 10}[i], middle(blocks[of], v))
		}
	}
	b.Log("\n" + table.String())
	b.ReportMetric(middle(blocks[ofOneNode], cpuOf), "cpu-µs/change")
	b.ReportMetric(middle(blocks[ofOneNode], slowestOf), "p99-ms")
	b.ReportMetric(against(blocks[ofAllRevisions], blocks[ofOneNode], cpuOf), "x-cpu-of-all-revisions")
	b.ReportMetric(0, "ns/op") // The time of both crowds together has no meaning.
}

func cpuOf(k block) float64     { return k.cpu }
func allocsOf(k block) float64  { return k.allocs }
func medianOf(k block) float64  { return ms(k.median) }
func slowestOf(k block) float64 { return ms(k.slowest) }

// measureNodes publishes changes for some time, each when the one before has arrived. done is the number of changes so
// far. They change the pods in turn, and so each concerns one consumer.
func (c *crowd) measureNodes(tb testing.TB, done int) (k block, changes int) {
	tb.Helper()
	var latencies []time.Duration
	var busy time.Duration
	before := c.server.usage(tb)
	for ; busy < fanOutBlock; done++ {
		c.awaited.Store(1)
		began := c.server.publish(tb, 1, 2<<10)
		c.await(tb)
		took := time.Duration(c.arrived[done%nodePods%len(c.arrived)] - began)
		latencies = append(latencies, took)
		busy += took
	}
	after := c.server.usage(tb)
	n := float64(len(latencies))
	slices.Sort(latencies)
	return block{
		perSecond: n / busy.Seconds(), cpu: float64(after.CPU-before.CPU) / 1e3 / n, allocs: float64(after.Mallocs-before.Mallocs) / n,
		median: percentile(latencies, 0.5), slowest: percentile(latencies, slowest),
	}, done
}
