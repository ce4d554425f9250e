package bench

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// A measurement of fan-out has several turns, each with one block of each variant.
const (
	fanOutCycles   = 7
	fanOutBlock    = 250 * time.Millisecond
	fanOutMinimum  = 3 // rounds in a block, however long they take
	fanOutWarmUp   = 3 // rounds
	protobufFormat = podconfigv1.PodFormat_POD_FORMAT_PROTOBUF
	jsonFormat     = podconfigv1.PodFormat_POD_FORMAT_JSON
)

// BenchmarkFanOut publishes changes of one pod to many consumers over the Unix socket. Each change is published
// when all consumers have received the one before. In turn with the product, it measures two servers that do
// nothing else: bare sends prepared bytes, and marshal has gRPC encode the message for each stream. Each server
// is a separate process, whose cost is measured; with one consumer, this includes the merge and the command.
// The figures are medians over the turns, and the ratios are medians of the ratios within one turn. Latency is
// from just before the publication to the receipt. It is one measurement, for any b.N.
func BenchmarkFanOut(b *testing.B) {
	for _, consumers := range []int{1, 100, 1000, 5000} {
		b.Run(fmt.Sprintf("consumers=%d", consumers), func(b *testing.B) {
			benchmarkFanOut(b, consumers, protobufFormat, 2<<10, 20<<10)
		})
	}
	b.Run("consumers=1000/json", func(b *testing.B) { benchmarkFanOut(b, 1000, jsonFormat, 2<<10) })
}

func benchmarkFanOut(b *testing.B, consumers int, format podconfigv1.PodFormat, sizes ...int) {
	variants := []string{product, bare, marshal}
	needFiles(b, uint64(len(variants)*consumers+256))
	crowds, idle := map[string]*crowd{}, map[string]float64{}
	for _, v := range variants {
		s := startServer(b, serverConfig{Variant: v, Pods: 1, Size: sizes[0], Format: format})
		before := s.memory(b)
		crowds[v] = gather(b, s, consumers, format)
		idle[v] = float64(int64(s.memory(b).InUse-before.InUse)) / float64(consumers)
	}
	for _, size := range sizes {
		b.Run(fmt.Sprintf("pod=%dKiB", size>>10), func(b *testing.B) {
			blocks := map[string][]block{}
			for _, v := range variants {
				for range fanOutWarmUp {
					crowds[v].round(b, size, nil)
				}
			}
			for range fanOutCycles {
				for _, v := range variants {
					blocks[v] = append(blocks[v], crowds[v].measure(b, size))
				}
			}
			reportFanOut(b, blocks, idle)
		})
	}
}

// block is the result of one variant in one turn.
type block struct {
	perSecond       float64 // deliveries
	cpu, allocs     float64 // of the server, a delivery: µs and objects
	median, slowest time.Duration
}

// slowest is the 99th percentile.
const slowest = 0.99

// measure publishes for some time.
func (c *crowd) measure(tb testing.TB, size int) block {
	var latencies []time.Duration
	var busy time.Duration
	before := c.server.usage(tb)
	rounds := 0
	for ; rounds < fanOutMinimum || busy < fanOutBlock; rounds++ {
		var took time.Duration
		latencies, took = c.round(tb, size, latencies)
		busy += took
	}
	after := c.server.usage(tb)
	n := float64(len(latencies))
	slices.Sort(latencies)
	return block{
		perSecond: n / busy.Seconds(), cpu: float64(after.CPU-before.CPU) / 1e3 / n, allocs: float64(after.Mallocs-before.Mallocs) / n,
		median: percentile(latencies, 0.5), slowest: percentile(latencies, slowest),
	}
}

// percentile returns a percentile of sorted values.
func percentile[T any](sorted []T, p float64) T {
	return sorted[min(int(p*float64(len(sorted))), len(sorted)-1)]
}

// middle returns the median of one value of all elements.
func middle[E any](all []E, value func(E) float64) float64 {
	values := make([]float64, len(all))
	for i, e := range all {
		values[i] = value(e)
	}
	slices.Sort(values)
	return percentile(values, 0.5)
}

// against returns the median of the ratios of one value within each turn.
func against(a, b []block, value func(block) float64) float64 {
	type pair struct{ a, b block }
	pairs := make([]pair, len(a))
	for i := range a {
		pairs[i] = pair{a[i], b[i]}
	}
	return middle(pairs, func(p pair) float64 { return value(p.a) / value(p.b) })
}

func reportFanOut(b *testing.B, blocks map[string][]block, idle map[string]float64) {
	values := []struct {
		unit  string
		value func(block) float64
	}{
		{"deliveries/s", func(k block) float64 { return k.perSecond }},
		{"cpu-µs/delivery", func(k block) float64 { return k.cpu }},
		{"allocs/delivery", func(k block) float64 { return k.allocs }},
		{"p50-ms", func(k block) float64 { return float64(k.median.Microseconds()) / 1e3 }},
		{"p99-ms", func(k block) float64 { return float64(k.slowest.Microseconds()) / 1e3 }},
	}
	var table strings.Builder
	fmt.Fprintf(&table, "%-8s", "")
	for _, v := range values {
		fmt.Fprintf(&table, " %16s", v.unit)
	}
	fmt.Fprintf(&table, " %16s", "idle-B/consumer")
	for _, variant := range []string{product, bare, marshal} {
		fmt.Fprintf(&table, "\n%-8s", variant)
		for _, v := range values {
			m := middle(blocks[variant], v.value)
			fmt.Fprintf(&table, " %16.2f", m)
			if variant == product {
				b.ReportMetric(m, v.unit)
			}
		}
		fmt.Fprintf(&table, " %16.0f", idle[variant])
	}
	b.Log("\n" + table.String())
	b.ReportMetric(idle[product], "idle-B/consumer")
	for _, other := range []string{bare, marshal} {
		b.ReportMetric(against(blocks[product], blocks[other], values[0].value), "rate-x-of-"+other)
		b.ReportMetric(against(blocks[other], blocks[product], values[1].value), "cpu-"+other+"/product")
	}
	b.ReportMetric(0, "ns/op") // The time of all variants together has no meaning.
}
