package bench

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
	"github.com/podstream/podstream/test/bench/workload"
	"github.com/podstream/podstream/test/devnode"
)

const (
	// relayNodes is the number of nodes, each with one consumer, and relayPods the number of pods on all of
	// them.
	relayNodes = 200
	relayPods  = 5000
	// relayRate is the number of pods that change in a second.
	relayRate = 200
)

// BenchmarkRelay runs 200 consumers, each for the pods of one node, first through a gateway that relays the
// 5,000 pods of all nodes, and then directly at the podconfigd that reads the API server, while 200 pods change
// in a second for 10 s (PODSTREAM_BENCH_FULL=1: 60 s). The cost of the consumers is the difference between the
// two turns of one podconfigd, with and without them. The gateway relays in both turns. It is one measurement,
// for any b.N.
func BenchmarkRelay(b *testing.B) {
	needFiles(b, 2*relayNodes+256)
	seconds := 10
	if full() {
		seconds = 60
	}
	r := startRelay(b)
	direct := r.turn(b, r.direct, seconds*relayRate)
	relayed := r.turn(b, r.gateway, seconds*relayRate)
	r.report(b, direct, relayed)
}

// relayBench is an API server, the podconfigd that reads it, and the podconfigd that relays the first one.
type relayBench struct {
	api             *apitest.Server
	direct, gateway *benchDaemon
	pods            []*v1.Pod
	// changes counts all changes.
	changes int
}

func startRelay(b *testing.B) *relayBench {
	b.Helper()
	node, err := devnode.Start(b.Context(), devnode.Config{Dir: b.TempDir(), Runtime: devnode.Sim})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = node.Close() })
	r := &relayBench{api: apitest.New(b, apitest.Config{})}
	for i := range relayPods {
		pod := workload.Sized(i, 0, 2<<10)
		pod.Spec.NodeName = nodeOf(i)
		r.pods = append(r.pods, pod)
		r.api.Put(pod)
	}
	r.direct = startBenchDaemon(b, node, "direct", "--kubeconfig", r.api.Kubeconfig(apitest.Identity{}))
	r.gateway = startBenchDaemon(b, node, "gateway", "--relay-from", r.direct.endpoint)
	return r
}

func nodeOf(pod int) string { return fmt.Sprintf("node-%03d", pod%relayNodes) }

// relayTurn is the daemons' usage, and the latency of the changes at the consumers of one of them.
type relayTurn struct {
	of        *benchDaemon
	ops       int
	latencies []time.Duration
	// direct and gateway are CPU times. synced is the time until all consumers had all their pods.
	direct, gateway time.Duration
	synced          time.Duration
	// first is the number of bytes until then, and bytes the number for the changes.
	first, bytes int64
}

// turn subscribes the consumers to a daemon while pods change.
func (r *relayBench) turn(b *testing.B, of *benchDaemon, changes int) relayTurn {
	b.Helper()
	began := time.Now()
	all := followNodes(b, of)
	defer all.stop()
	t := relayTurn{of: of, synced: time.Since(began), first: all.bytes.Load(), ops: changes}
	direct, gateway := r.direct.cpu(b), r.gateway.cpu(b)
	pace := time.NewTicker(time.Second / relayRate)
	defer pace.Stop()
	for range changes {
		<-pace.C
		r.change()
	}
	t.latencies = all.await(b, changes)
	t.direct, t.gateway, t.bytes = r.direct.cpu(b)-direct, r.gateway.cpu(b)-gateway, all.bytes.Load()-t.first
	slices.Sort(t.latencies)
	return t
}

// changedAt is the annotation that has the time of a pod's change.
const changedAt = "example.com/changed-at"

// change changes the pods in turn: the spec of one, then the status of the next.
func (r *relayBench) change() {
	pod := r.pods[r.changes%len(r.pods)]
	r.changes++
	if r.changes%2 == 0 {
		pod.Status.Message = strconv.Itoa(r.changes)
	}
	pod.Annotations[changedAt] = strconv.FormatInt(time.Now().UnixNano(), 10)
	r.api.Put(pod)
}

// report prints both turns and their differences.
func (r *relayBench) report(b *testing.B, direct, relayed relayTurn) {
	var table strings.Builder
	fmt.Fprintf(&table, "%-12s %8s %10s %10s %10s %14s %14s %12s %12s", "consumers of", "ops", "synced-ms", "p50-ms", "p99-ms",
		"direct-cpu-s", "gateway-cpu-s", "B-at-first", "B/op")
	for _, t := range []relayTurn{direct, relayed} {
		fmt.Fprintf(&table, "\n%-12s %8d %10d %10.2f %10.2f %14.2f %14.2f %12d %12d", t.of.name, t.ops, t.synced.Milliseconds(),
			ms(percentile(t.latencies, 0.5)), ms(percentile(t.latencies, slowest)), t.direct.Seconds(), t.gateway.Seconds(),
			t.first, t.bytes/int64(t.ops))
	}
	for _, d := range []*benchDaemon{r.direct, r.gateway} {
		fmt.Fprintf(&table, "\n%s: peak RSS %d MiB, in all %.2f CPU s", d.name, d.peak()/mib, d.cpu(b).Seconds())
	}
	b.Log("\n" + table.String())

	perOp := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(relayed.ops) }
	b.ReportMetric(float64(r.gateway.peak())/mib, "MiB-peak-gateway")
	b.ReportMetric(float64(r.gateway.peak())/float64(r.direct.peak()), "x-peak-of-direct")
	b.ReportMetric(perOp(relayed.gateway), "cpu-µs/op")
	b.ReportMetric(relayed.gateway.Seconds(), "cpu-s")
	b.ReportMetric(perOp(direct.gateway), "cpu-µs/op-relaying")
	b.ReportMetric(perOp(relayed.gateway-direct.gateway)/max(perOp(direct.direct-relayed.direct), 1), "x-cpu-of-direct-streams")
	b.ReportMetric(ms(percentile(relayed.latencies, 0.5)), "p50-ms")
	b.ReportMetric(ms(percentile(relayed.latencies, slowest)), "p99-ms")
	b.ReportMetric(float64(percentile(relayed.latencies, 0.5))/float64(percentile(direct.latencies, 0.5)), "x-p50-of-direct")
	b.ReportMetric(float64(percentile(relayed.latencies, slowest))/float64(percentile(direct.latencies, slowest)), "x-p99-of-direct")
	b.ReportMetric(float64(relayed.bytes)/float64(relayed.ops), "B/op-delivered")
	b.ReportMetric(float64(relayed.bytes)/float64(direct.bytes), "x-bytes-of-direct")
	b.ReportMetric(0, "ns/op") // The time of both turns together has no meaning.
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
