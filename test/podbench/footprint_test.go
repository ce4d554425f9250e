package podbench

import (
	"bufio"
	"flag"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/podstream/podstream/internal/porttest"
	"github.com/podstream/podstream/test/devnode"
)

// beforeDir has the daemons of another version, which are measured at the same time. They must have the flags of
// devnode.HostFlags.
var beforeDir = flag.String("before", "",
	"`directory` of another version's podconfigd and podexecd, with which BenchmarkFootprint compares; default: none")

// footprintPods is the number of pods of a small node.
const footprintPods = 50

// BenchmarkFootprint prints the memory and the CPU time of both daemons with 50 idle pods, which write no logs, and those
// of the daemons of -before and the kubelet of -kubelet, which run as many pods at the same time. The ratio is that of
// both daemons' memory to the one before. It is one measurement, for any b.N.
func BenchmarkFootprint(b *testing.B) {
	r := runtimes[0].runtime
	own := newMeasured(b, r, "", "")
	nodes := []*measured{own}
	if *beforeDir != "" {
		dir, err := filepath.Abs(*beforeDir)
		if err != nil {
			b.Fatal(err)
		}
		nodes = append(nodes, newMeasured(b, r, dir, ", before"))
	}
	k := newKubelet(b, r)
	var pods []pod
	for i := range footprintPods {
		pods = append(pods, staying(fmt.Sprintf("idle%d", i)))
	}
	for _, m := range nodes {
		m.product.start(b, pods...)
		m.product.pipe.await(b, beginnings(pods)...)
	}
	if k != nil {
		k.manifests.add(b, k.pipe, pods)
		k.pipe.await(b, beginnings(pods)...)
	}
	account := func() (all []usage) {
		for _, m := range nodes {
			all = append(all, m.account(b)...)
		}
		if k != nil {
			all = append(all, usageOf(b, "kubelet", k.process.Pid()))
		}
		return all
	}
	// The benchmark measures an idle time.
	<-time.After(settling)
	before := account()
	window := idleFor()
	<-time.After(window)
	after := account()
	// A request for the metrics takes memory itself, so it comes last.
	for i := range after {
		after[i].cpu = (after[i].cpu - before[i].cpu) * float64(time.Minute/window)
	}
	for i, m := range nodes {
		readHeap(b, &after[3*i], m.podconfigdMetrics)
		readHeap(b, &after[3*i+1], m.podexecdMetrics)
	}
	b.Logf("\n%s", footprintTable(after))
	for _, u := range after {
		name := strings.NewReplacer(" ", "-", ",", "").Replace(u.name)
		b.ReportMetric(u.rss, "MiB/"+name)
		b.ReportMetric(u.cpu, "cpu-s-per-min/"+name)
	}
	if len(nodes) > 1 {
		b.ReportMetric(after[2].rss/after[5].rss, "ratio")
	}
	b.ReportMetric(0, "ns/op")
}

// measured is a node with both daemons, which serve their metrics.
type measured struct {
	product *product
	suffix  string
	// podconfigdMetrics and podexecdMetrics are addresses.
	podconfigdMetrics, podexecdMetrics string
}

// newMeasured starts a node with the daemons in the directory; "" means those of this tree.
func newMeasured(b *testing.B, r devnode.Runtime, bin, suffix string) *measured {
	b.Helper()
	address := func() string { return fmt.Sprintf("127.0.0.1:%d", porttest.Reserve(b)) }
	m := &measured{suffix: suffix, podconfigdMetrics: address(), podexecdMetrics: address()}
	m.product = newProductOf(b, r, bin, []string{"--metrics-address", m.podconfigdMetrics}, []string{"--metrics-address", m.podexecdMetrics})
	return m
}

// account returns the usage of podconfigd, of podexecd, and of both.
func (m *measured) account(b *testing.B) []usage {
	b.Helper()
	c := usageOf(b, "podconfigd"+m.suffix, m.product.podconfigd.Pid())
	x := usageOf(b, "podexecd"+m.suffix, m.product.podexecd.Pid())
	return []usage{c, x, {name: "both" + m.suffix, cpu: c.cpu + x.cpu, rss: c.rss + x.rss, anon: c.anon + x.anon, file: c.file + x.file}}
}

// footprintTable returns the table of what runs for a minute.
func footprintTable(rows []usage) string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "%d pods\tRSS\tanonymous\tof files\theap in use\tgoroutines\tCPU a minute\t\n", footprintPods)
	for _, u := range rows {
		fmt.Fprintf(table, "%s\t%.1f MiB\t%.1f MiB\t%.1f MiB\t", u.name, u.rss, u.anon, u.file)
		if u.goroutines > 0 {
			fmt.Fprintf(table, "%.1f MiB\t%d\t", u.heap, u.goroutines)
		} else {
			fmt.Fprint(table, "\t\t")
		}
		fmt.Fprintf(table, "%.2f s\t\n", u.cpu)
	}
	_ = table.Flush()
	return strings.TrimRight(text.String(), "\n")
}

// readHeap adds the metrics of Go's runtime.
func readHeap(b *testing.B, u *usage, address string) {
	b.Helper()
	response, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		number, err := strconv.ParseFloat(value, 64)
		switch {
		case name != "go_memstats_heap_inuse_bytes" && name != "go_goroutines":
		case err != nil:
			b.Fatalf("%s: %v", name, err)
		case name == "go_goroutines":
			u.goroutines = int(number)
		default:
			u.heap = number / (1 << 20)
		}
	}
}
