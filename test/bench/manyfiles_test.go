package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/test/devnode"
)

const (
	// manyFiles is the number of manifests in the directory.
	manyFiles = 2000
	// changes is the number of manifests that are changed, one after another.
	changes = 20
)

// BenchmarkManyFiles runs the shipped podconfigd with 2,000 manifests. It measures the time from the start
// until a consumer has all pods and the source is ready; the CPU time at rest, through three full readings
// (with PODSTREAM_BENCH_FULL=1 every 20 s, which is the default interval; otherwise within 10 s); and the cost
// of one change, in CPU time and in time from the rename to the op, in turn with a podconfigd that has one
// manifest. The figures are medians of 20. It is one measurement, for any b.N.
func BenchmarkManyFiles(b *testing.B) {
	node, err := devnode.Start(b.Context(), devnode.Config{Dir: b.TempDir(), Runtime: devnode.Sim})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = node.Close() })
	rest := 10 * time.Second
	if os.Getenv(fullEnv) != "" {
		rest = time.Minute
	}
	many, one := startFileDaemon(b, node, "many", manyFiles, rest/3), startFileDaemon(b, node, "one", 1, rest/3)
	b.ReportMetric(many.toSynced.Seconds(), "s/synced")
	b.ReportMetric(float64(many.toSynced.Microseconds())/manyFiles, "µs/file")

	before := many.cpu(b)
	// The benchmark measures an idle time.
	<-time.After(rest)
	b.ReportMetric((many.cpu(b) - before).Seconds(), "cpu-s/at-rest")

	for range changes {
		many.change(b)
		one.change(b)
	}
	many.finish(b)
	one.finish(b)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(median(many.latencies).Microseconds()), "µs/rename-to-op")
	b.ReportMetric(float64(median(many.costs).Microseconds()), "µs-cpu/change")
	b.ReportMetric(float64(median(many.latencies))/float64(median(one.latencies)), "x-latency-of-one")
	b.ReportMetric(float64(median(many.costs))/float64(median(one.costs)), "x-cpu-of-one")
}

// fileDaemon is a podconfigd that reads a directory of manifests.
type fileDaemon struct {
	dir      string
	files    int
	process  *devnode.Process
	arrivals <-chan struct{}
	// toSynced is the time from the start until a consumer had all pods.
	toSynced time.Duration
	// round counts the changes. latencies and costs belong to them.
	round            int
	latencies, costs []time.Duration
	// used is the CPU time up to the last change.
	used time.Duration
}

func startFileDaemon(b *testing.B, node *devnode.Node, name string, files int, check time.Duration) *fileDaemon {
	d := &fileDaemon{dir: node.Path(name, "manifests"), files: files}
	if err := os.MkdirAll(d.dir, 0o755); err != nil {
		b.Fatal(err)
	}
	for i := range files {
		d.write(b, i)
	}
	// start returns a function that ends the consumer.
	start := func() (stop func()) {
		endpoint := "unix://" + node.Socket(name)
		started := time.Now()
		var err error
		d.process, err = node.StartDaemonAs(name, "podconfigd", "--root-dir", node.Path(name, "root"), "--listen", endpoint,
			"--hostname-override", "bench", "--pod-manifest-path", d.dir, "--file-check-frequency", check.String())
		if err != nil {
			b.Fatal(err)
		}
		d.arrivals, stop = consumeAll(b, endpoint, files)
		d.toSynced = time.Since(started)
		return stop
	}
	if files > 1 {
		// The first start builds the binary, and fills the page cache.
		start()()
		if err := d.process.Kill(); err != nil {
			b.Fatal(err)
		}
		if err := os.RemoveAll(node.Path(name, "root")); err != nil {
			b.Fatal(err)
		}
	}
	b.Cleanup(start())
	return d
}

// write writes the next version of a manifest with a rename, and returns the time of the rename.
func (d *fileDaemon) write(b *testing.B, i int) time.Time {
	temp := filepath.Join(d.dir, ".temp")
	if err := os.WriteFile(temp, fmt.Appendf(nil, numbered, i, d.round), 0o644); err != nil {
		b.Fatal(err)
	}
	renamed := time.Now()
	if err := os.Rename(temp, filepath.Join(d.dir, fmt.Sprintf("%05d.yaml", i))); err != nil {
		b.Fatal(err)
	}
	return renamed
}

// change changes one file and waits for the op. It records the cost of the previous change, whose work may have
// continued after its op.
func (d *fileDaemon) change(b *testing.B) {
	used := d.cpu(b)
	if d.round > 0 {
		d.costs = append(d.costs, used-d.used)
	}
	d.used = used
	d.round++
	renamed := d.write(b, d.round*97%d.files)
	select {
	case <-d.arrivals:
	case <-time.After(time.Minute):
		b.Fatal("the change doesn't arrive")
	}
	d.latencies = append(d.latencies, time.Since(renamed))
}

// finish records the cost of the last change.
func (d *fileDaemon) finish(b *testing.B) { d.costs = append(d.costs, d.cpu(b)-d.used) }

// cpu returns the CPU time of the process so far, in nanoseconds. The hundredths of a second of proc(5) are too
// coarse for one change.
func (d *fileDaemon) cpu(b *testing.B) time.Duration {
	// This is the kernel's MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED), as in clock_getcpuclockid(3).
	clock := int32(^d.process.Pid()<<3 | 2)
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		b.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// consumeAll waits until a consumer has this many pods of a source that is ready. After that it sends a value
// for each revision with pods, until it is stopped.
func consumeAll(b *testing.B, endpoint string, pods int) (<-chan struct{}, func()) {
	c, err := client.New(client.Config{Endpoint: endpoint, Consumer: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	complete, arrivals, done := make(chan struct{}), make(chan struct{}, changes), make(chan struct{})
	go func() {
		defer close(done)
		have, ready, counted := 0, false, false
		_ = c.Watch(ctx, client.WatchOptions{}, func(ctx context.Context, e client.Event) error {
			came := 0
			for _, op := range e.Ops {
				came += len(op.Pods)
				ready = ready || op.SourceReady
			}
			have += came
			switch {
			case counted && came > 0:
				arrivals <- struct{}{}
			case !counted && ready && have == pods:
				counted = true
				close(complete)
			}
			return nil
		})
	}()
	stop := func() { cancel(); <-done; _ = c.Close() }
	select {
	case <-complete:
	case <-time.After(2 * time.Minute):
		stop()
		b.Fatalf("the consumer never received %d pods", pods)
	}
	return arrivals, stop
}

// numbered is a manifest of a typical size.
const numbered = `apiVersion: v1
kind: Pod
metadata:
  name: p%d
  labels: {component: bench, tier: control-plane}
spec:
  hostNetwork: true
  containers:
  - name: main
    image: registry.example/main:v1.2.3
    command: [main, --advertise-client-urls=https://10.0.0.1:2379, --data-dir=/var/lib/main, --serial=%d]
    resources: {requests: {cpu: 100m, memory: 100Mi}, limits: {memory: 200Mi}}
    livenessProbe:
      httpGet: {host: 127.0.0.1, path: /health, port: 2381}
      failureThreshold: 8
      initialDelaySeconds: 10
    volumeMounts: [{mountPath: /var/lib/main, name: data}]
  volumes:
  - {name: data, hostPath: {path: /var/lib/main, type: DirectoryOrCreate}}
`
