package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/test/devnode"
)

// BenchmarkRenameToConsumer measures from the rename of a manifest to the op at a consumer over podconfigd's
// socket and, in turn with it, the minimum: inotify, read and decode of the same manifest in one process. It
// prints medians, and their ratio.
func BenchmarkRenameToConsumer(b *testing.B) {
	node, err := devnode.Start(b.Context(), devnode.Config{Dir: b.TempDir(), Runtime: devnode.Sim})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = node.Close() })
	watched, bare := node.Path("manifests"), node.Path("bare")
	for _, dir := range []string{watched, bare} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.Fatal(err)
		}
	}
	endpoint := "unix://" + node.Socket("c")
	if _, err := node.StartDaemon("podconfigd", "--root-dir", node.Path("podconfigd"), "--listen", endpoint,
		"--hostname-override", "bench", "--pod-manifest-path", watched); err != nil {
		b.Fatal(err)
	}
	arrivals := consume(b, endpoint)
	reader := newBareReader(b, bare)

	var streamed, baseline []time.Duration
	for i := 0; b.Loop(); i++ {
		streamed = append(streamed, rename(b, watched, i, func() { <-arrivals }))
		baseline = append(baseline, rename(b, bare, i, reader.await))
	}
	b.ReportMetric(0, "ns/op") // The time of both halves together has no meaning.
	s, r := median(streamed), median(baseline)
	b.ReportMetric(float64(s.Microseconds()), "µs/rename-to-op")
	b.ReportMetric(float64(r.Microseconds()), "µs/bare")
	b.ReportMetric(float64(s)/float64(r), "ratio")
}

// consume watches podconfigd and sends a value for each revision after the first synced.
func consume(b *testing.B, endpoint string) <-chan struct{} {
	c, err := client.New(client.Config{Endpoint: endpoint, Consumer: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	synced, arrivals, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		started := false
		_ = c.Watch(ctx, client.WatchOptions{}, func(ctx context.Context, e client.Event) error {
			switch {
			case e.Synced && !started:
				started = true
				close(synced)
			case started && len(e.Ops) > 0 && len(e.Ops[len(e.Ops)-1].Pods) > 0:
				select {
				case arrivals <- struct{}{}:
				case <-ctx.Done():
				}
			}
			return nil
		})
	}()
	b.Cleanup(func() { cancel(); <-done; _ = c.Close() })
	select {
	case <-synced:
	case <-time.After(time.Minute):
		b.Fatal("podconfigd doesn't answer")
	}
	return arrivals
}

// bareReader does the minimum that any agent must do.
type bareReader struct {
	b       *testing.B
	watcher *fsnotify.Watcher
	path    string
}

func newBareReader(b *testing.B, dir string) *bareReader {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = w.Close() })
	if err := w.Add(dir); err != nil {
		b.Fatal(err)
	}
	return &bareReader{b: b, watcher: w, path: filepath.Join(dir, "pod.yaml")}
}

// await waits for the rename, then reads and decodes the pod.
func (r *bareReader) await() {
	for e := range r.watcher.Events {
		if e.Name == r.path && e.Has(fsnotify.Create) {
			break
		}
	}
	data, err := os.ReadFile(r.path)
	if err != nil {
		r.b.Fatal(err)
	}
	var pod v1.Pod
	if err := yaml.UnmarshalStrict(data, &pod); err != nil {
		r.b.Fatal(err)
	}
}

// rename writes a manifest that differs each time, and measures from its rename until wait returns.
func rename(b *testing.B, dir string, i int, wait func()) time.Duration {
	temp := filepath.Join(dir, ".pod.yaml.tmp")
	if err := os.WriteFile(temp, fmt.Appendf(nil, pod, i), 0o644); err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	if err := os.Rename(temp, filepath.Join(dir, "pod.yaml")); err != nil {
		b.Fatal(err)
	}
	wait()
	return time.Since(start)
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// pod is a manifest of three containers, like a static pod of a control plane.
const pod = `apiVersion: v1
kind: Pod
metadata:
  name: bench
  namespace: kube-system
  labels: {component: bench, tier: control-plane}
spec:
  hostNetwork: true
  priorityClassName: system-node-critical
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
  - name: side
    image: registry.example/side:v1
    args: [--watch, /var/lib/main]
    env: [{name: MODE, value: side}]
    volumeMounts: [{mountPath: /var/lib/main, name: data, readOnly: true}]
  - name: exporter
    image: registry.example/exporter:v1
    ports: [{containerPort: 9100}]
  volumes:
  - {name: data, hostPath: {path: /var/lib/main, type: DirectoryOrCreate}}
`
