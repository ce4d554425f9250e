package podbench

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/podstream/podstream/test/devnode"
)

const (
	idlePods = 100
	// settling is the time between the last pod's start and the measurement.
	settling = 10 * time.Second
)

// idleFor returns the duration of the measurement.
func idleFor() time.Duration {
	if os.Getenv("PODSTREAM_BENCH_FULL") != "" {
		return time.Minute
	}
	return 20 * time.Second
}

// BenchmarkIdle runs a hundred idle pods, without probes and with two probes every 10 s, and prints the
// resources of each process; and the cost of as many pods without an agent. It is one measurement, for any b.N.
func BenchmarkIdle(b *testing.B) {
	for _, r := range runtimes {
		b.Run(r.name, func(b *testing.B) {
			p := &pair{product: newProduct(b, r.runtime), floor: newFloor(b, r.runtime)}
			p.floor.start(b, 4, pausing("")...)
			b.Run("probes=none", func(b *testing.B) { p.benchmarkIdle(b, pausing("")) })
			o := newOracle(b)
			o.ready.Store(true)
			b.Run("probes=http+tcp", func(b *testing.B) {
				p.benchmarkIdle(b, pausing(fmt.Sprintf("    livenessProbe: {tcpSocket: {host: 127.0.0.1, port: %[1]s}, periodSeconds: 10}\n"+
					"    readinessProbe: {httpGet: {host: 127.0.0.1, port: %[1]s}, periodSeconds: 10}", o.port())))
			})
		})
	}
}

// pausing returns the pods, with these probes.
func pausing(probes string) []pod {
	pods := make([]pod, idlePods)
	for i := range pods {
		pods[i] = pod{name: fmt.Sprintf("idle%d", i), args: []string{"pause"}, probes: probes}
	}
	return pods
}

func (p *pair) benchmarkIdle(b *testing.B, pods []pod) {
	var names []string
	for _, pod := range pods {
		names = append(names, pod.name)
	}
	began := p.product.start(b, pods...)
	ready := p.product.watcher.await(b, "all pods are ready", each(names, func(c change) bool { return c.running && c.ready }))
	// The benchmark measures an idle time.
	<-time.After(settling)
	before := slices.Concat(p.product.account(b), p.floor.account(b))
	window := idleFor()
	<-time.After(window)
	after := slices.Concat(p.product.account(b), p.floor.account(b))
	p.product.remove(b, pods...)

	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "%d pods\tCPU in %v\tof a core\tRSS\t\n", idlePods, window)
	for i, now := range after {
		used := now.cpu - before[i].cpu
		fmt.Fprintf(table, "%s\t%.2f s\t%.2f %%\t%.1f MiB\t\n", now.name, used, 100*used/window.Seconds(), now.rss)
		b.ReportMetric(100*used/window.Seconds(), "%core/"+strings.ReplaceAll(now.name, " ", "-"))
		b.ReportMetric(now.rss, "MiB/"+strings.ReplaceAll(now.name, " ", "-"))
	}
	_ = table.Flush()
	b.Logf("all ready after %.1f s\n%s", ready.at.Sub(began).Seconds(), text.String())
	b.ReportMetric(ready.at.Sub(began).Seconds(), "s/all-ready")
	b.ReportMetric(0, "ns/op")
}

// usage is what one or several processes have used so far, and their memory.
type usage struct {
	name string
	cpu  float64 // seconds, with children that have ended
	rss  float64 // MiB
	peak float64 // MiB: the maximum of rss
	// anon and file are the parts of rss, in MiB: the process's own memory, and pages of files, mostly of its program.
	anon, file float64
	// heap is what Go's heap has in use, in MiB. Like goroutines it is zero if it wasn't read.
	heap       float64
	goroutines int
}

// account returns the usage of the node's processes.
func (p *product) account(b *testing.B) []usage {
	b.Helper()
	return append([]usage{usageOf(b, "podconfigd", p.podconfigd.Pid()), usageOf(b, "podexecd", p.podexecd.Pid())}, runtimeUsage(b, p.node, "")...)
}

// account returns the runtime's usage for pods without an agent.
func (f *floor) account(b *testing.B) []usage {
	b.Helper()
	return runtimeUsage(b, f.node, " alone")
}

// runtimeUsage returns the usage of containerd, and of all its shims.
func runtimeUsage(b *testing.B, node *devnode.Node, suffix string) []usage {
	b.Helper()
	pids, err := node.Shims()
	if err != nil {
		b.Fatal(err)
	}
	shims := usage{name: "shims" + suffix}
	for _, pid := range pids {
		u := usageOf(b, "", pid)
		shims.cpu += u.cpu
		shims.rss += u.rss
	}
	return []usage{usageOf(b, "containerd"+suffix, node.Runtime().Pid()), shims}
}

// usageOf reads proc(5): utime, stime, cutime and cstime of stat, in 1/100 s, and the fields of status.
func usageOf(b *testing.B, name string, pid int) usage {
	b.Helper()
	u := usage{name: name}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	// The command in parentheses may contain spaces. utime is the 12th field after it.
	for _, f := range strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))[11:15] {
		ticks, err := strconv.ParseFloat(f, 64)
		if err != nil {
			b.Fatal(err)
		}
		u.cpu += ticks / 100
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		field, rest, _ := strings.Cut(line, ":")
		into := map[string]*float64{"VmRSS": &u.rss, "VmHWM": &u.peak, "RssAnon": &u.anon, "RssFile": &u.file}[field]
		if into == nil {
			continue
		}
		kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
		if err != nil {
			b.Fatal(err)
		}
		*into = kib / 1024
	}
	return u
}
