package bench

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// fullEnv, if set, makes the tests of this package run at the size that the promise names.
const fullEnv = "PODSTREAM_BENCH_FULL"

func full() bool { return os.Getenv(fullEnv) != "" }

// stalledWindow is the flow control window of a consumer that doesn't read: gRPC's default.
const stalledWindow = 64<<10 - 1

// stalledName is the prefix of the names of consumers that don't read.
const stalledName = "stalled-"

// stall subscribes this many consumers that never read. They end with the test.
func stall(tb testing.TB, s *server, consumers int) {
	tb.Helper()
	for i := range consumers {
		conn, err := connect(s.cfg.Socket, stalledWindow)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = conn.Close() })
		req := &podconfigv1.WatchPodUpdatesRequest{Consumer: fmt.Sprint(stalledName, i), Format: protobufFormat}
		stream, err := subscribe(tb.Context(), conn, req)
		if err == nil {
			// The header shows that podconfigd has the stream.
			_, err = stream.Header()
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
}

// requireStalled fails unless this many of the consumers that don't read are behind: otherwise the test would
// measure nothing.
func requireStalled(tb testing.TB, s *server, want int) {
	tb.Helper()
	conn, err := grpc.NewClient("unix://"+s.cfg.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close()
	resp, err := podconfigv1.NewPodConfigServiceClient(conn).ListConsumers(tb.Context(), &podconfigv1.ListConsumersRequest{})
	if err != nil {
		tb.Fatal(err)
	}
	behind := 0
	for _, c := range resp.GetConsumers() {
		if c.GetLagRevisions() > 0 && strings.HasPrefix(c.GetName(), stalledName) {
			behind++
		}
	}
	if behind != want {
		tb.Fatalf("%d of the %d consumers that don't read are behind; want all", behind, want)
	}
}

// harm returns the effect of one stalled consumer on this many live ones: the 99th percentile of their latency
// with it, divided by the one without it. Two servers are measured in turn; the ratio is the median of the
// ratios within a turn.
func harm(tb testing.TB, consumers, turns int) (ratio float64, without, with time.Duration) {
	tb.Helper()
	const size, rounds = 2 << 10, 20
	needFiles(tb, uint64(2*consumers+256))
	var crowds [2]*crowd
	for i := range crowds {
		s := startServer(tb, serverConfig{Variant: product, Pods: 1, Size: size})
		crowds[i] = gather(tb, s, consumers, protobufFormat)
		if i == 1 {
			stall(tb, s, 1)
		}
		// More than the windows and queues on the way to a stalled consumer can hold.
		for range 100 {
			crowds[i].round(tb, size, nil)
		}
	}
	requireStalled(tb, crowds[1].server, 1)
	type pair struct{ without, with time.Duration }
	var pairs []pair
	for range turns {
		var at [2]time.Duration
		for i, c := range crowds {
			var latencies []time.Duration
			for range rounds {
				latencies, _ = c.round(tb, size, latencies)
			}
			slices.Sort(latencies)
			at[i] = percentile(latencies, slowest)
		}
		pairs = append(pairs, pair{at[0], at[1]})
	}
	ratio = middle(pairs, func(p pair) float64 { return float64(p.with) / float64(p.without) })
	without = time.Duration(middle(pairs, func(p pair) float64 { return float64(p.without) }))
	with = time.Duration(middle(pairs, func(p pair) float64 { return float64(p.with) }))
	return ratio, without, with
}

// TestG8StalledConsumerDelaysNoOther checks G8, Isolated: with a consumer that never reads, the others receive
// each revision as soon as without it. The machine may be busy, so the test allows 1.5 times, at the best of
// three tries. BenchmarkStalledConsumer prints the ratio on a quiet machine.
func TestG8StalledConsumerDelaysNoOther(t *testing.T) {
	consumers, turns := 100, 9
	if full() {
		consumers, turns = 1000, 15
	}
	const limit, tries = 1.5, 3
	for try := 1; ; try++ {
		ratio, without, with := harm(t, consumers, turns)
		t.Logf("p99 of %d consumers: %s without a stalled one, %s with it: %.2f times", consumers, without, with, ratio)
		if ratio <= limit {
			return
		}
		if try == tries {
			t.Fatalf("with a stalled consumer the others wait %.2f times as long; want %.1f at most", ratio, limit)
		}
	}
}

// BenchmarkStalledConsumer prints the effect of one stalled consumer on the 99th percentile of 1,000 live ones.
// It is one measurement, for any b.N.
func BenchmarkStalledConsumer(b *testing.B) {
	ratio, without, with := harm(b, 1000, 15)
	b.ReportMetric(milliseconds(without), "p99-ms/without")
	b.ReportMetric(milliseconds(with), "p99-ms/with")
	b.ReportMetric(ratio, "with/without")
	b.ReportMetric(0, "ns/op") // The time of both together has no meaning.
}
