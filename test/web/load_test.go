package web

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/podstream/podstream/test/rig"
)

const (
	loadSources = 50
	loadPods    = 10 // of each source
	loadRate    = 50 // changes in a second
	loadTime    = time.Minute
	// longTask is what is bounded, in ms of processor time: a browser's task that long delays the user's next input. See tasks
	// for why it isn't the time by the clock.
	longTask = 100
)

// loadPod writes a manifest of one pod. Its UID is given, so that a change is an UPDATE.
func loadPod(dir string, source, pod, version int) error {
	name := fmt.Sprintf("load-%02d-%02d", source, pod)
	content := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\n  uid: 00000000-0000-0000-0000-%012d\n  labels: {version: \"%d\"}\nspec:\n  containers:\n%s",
		name, source*loadPods+pod, version, container("main", "serve"))
	path := filepath.Join(dir, fmt.Sprint(source), name+".yaml")
	if err := os.WriteFile(path+".tmp", []byte(content), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

// With 500 pods and 50 revisions a second, no task of the browser is long, the document stays small, and the heap flat.
func TestLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes two minutes")
	}
	node := machine.node
	dir := node.Path("load")
	config := "apiVersion: podstream.io/v1alpha1\nkind: PodSources\nfiles:\n"
	for i := range loadSources {
		rig.Must(t, os.MkdirAll(filepath.Join(dir, fmt.Sprint(i)), 0o755))
		config += fmt.Sprintf("- {name: s%d, path: %s}\n", i, filepath.Join(dir, fmt.Sprint(i)))
		for k := range loadPods {
			rig.Must(t, loadPod(dir, i, k, 0))
		}
	}
	rig.Must(t, os.WriteFile(filepath.Join(dir, "sources.yaml"), []byte(config), 0o600))
	podconfigd, podexecd := node.Socket("loadc"), node.Socket("loadx")
	for name, args := range map[string][]string{
		"podconfigd": {"--root-dir", filepath.Join(dir, "c"), "--listen", "unix://" + podconfigd, "--hostname-override", "load", "--config", filepath.Join(dir, "sources.yaml")},
		"podexecd": {
			"--root-dir", filepath.Join(dir, "x"), "--kubelet-dir", filepath.Join(dir, "k"), "--listen", "unix://" + podexecd, "--hostname-override", "load",
			"--podconfig-endpoint", "unix://" + podconfigd, "--container-runtime-endpoint", node.Endpoint(), "--pod-logs-dir", filepath.Join(dir, "log"), "--max-pods", "1000",
		},
	} {
		process, err := node.StartDaemonAs("load-"+name, name, args...)
		rig.Must(t, err)
		t.Cleanup(func() { rig.Must(t, process.Kill()) })
	}
	b := newTab(t, startSite(t, podconfigd, podexecd).address)
	b.wait("all pods run", `document.querySelector('.tile b')?.textContent === "500" && !document.querySelector('#main .tiles')?.textContent.includes("on their way")`)
	t.Logf("DOM after load: %d elements", eval[int](b, `document.querySelectorAll("*").length`))

	ctx, stop := context.WithCancel(t.Context())
	written := make(chan error, 1)
	go func() { written <- writeLoad(ctx, dir) }()
	defer func() {
		stop()
		rig.Must(t, <-written)
	}()
	waited := ownProcessor(t)
	trace := b.trace()
	var heap []float64
	most := 0
	for i, view := range []string{"#/timeline", "#/pods", "#/timeline", "#/consumers", "#/sources", "#/timeline"} {
		b.open(view)
		first := eval[int](b, `Number([...document.querySelectorAll(".scrub .ends b")].pop()?.textContent ?? 0)`)
		started := time.Now()
		for time.Since(started) < loadTime/6 {
			most = max(most, eval[int](b, `new Promise((r) => setTimeout(() => r(document.querySelectorAll("*").length), 1000))`))
		}
		if last := eval[int](b, `Number([...document.querySelectorAll(".scrub .ends b")].pop()?.textContent ?? 0)`); last > 0 && first > 0 {
			t.Logf("%s: %d revisions in %s", view, last-first, time.Since(started).Round(time.Second))
		}
		if i%2 == 0 {
			heap = append(heap, b.heap())
		}
	}
	delay := waited()
	long := trace.end(b)
	sumWaits := 0.0
	for _, one := range long {
		sumWaits += one.clock - one.cpu
	}
	t.Logf("the longest task: %.0f ms of processor time, %.0f ms by the clock; the %d tasks over %d ms by the clock waited for %.0f ms; "+
		"the browser's threads waited for a processor for %.0f ms", longest(long, func(t task) float64 { return t.cpu }),
		longest(long, func(t task) float64 { return t.clock }), len(long), shortTask, sumWaits, delay)
	slices.SortFunc(long, func(a, b task) int { return cmp.Compare(b.cpu, a.cpu) })
	for _, one := range long[:min(len(long), 10)] {
		t.Logf("by processor time and by the clock: %v", one)
	}
	t.Logf("heap in MiB: %.1f; at most %d elements", heap, most)
	if most > 3000 {
		t.Errorf("the document had %d elements", most)
	}
	if heap[2] > heap[0]*1.5+8 {
		t.Errorf("the heap grew: %.1f MiB", heap)
	}
	// What a long task waits for by the clock is a processor, for itself or for another thread of the browser, and not an answer.
	if sumWaits-delay > longTask {
		t.Errorf("long tasks waited for %.0f ms, and only %.0f ms of that for a processor", sumWaits, delay)
	}
	for _, one := range long {
		if one.cpu > longTask {
			t.Errorf("a task of the browser took %.0f ms of processor time", one.cpu)
		}
	}
}

// writeLoad changes a pod of each source in turn.
func writeLoad(ctx context.Context, dir string) error {
	tick := time.NewTicker(time.Second / loadRate)
	defer tick.Stop()
	for i := 1; ; i++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := loadPod(dir, i%loadSources, i/loadSources%loadPods, i); err != nil {
			return err
		}
	}
}

// heap returns the size of the page's heap in MiB, after a garbage collection.
func (b *tab) heap() float64 {
	b.t.Helper()
	var used float64
	b.do(heapprofiler.CollectGarbage(), chromedp.ActionFunc(func(ctx context.Context) (err error) {
		used, _, _, _, err = runtime.GetHeapUsage().Do(ctx)
		return err
	}))
	return used / (1 << 20)
}

// evalVoid evaluates an expression whose value doesn't matter.
func evalVoid(expression string) chromedp.Action { return chromedp.Evaluate(expression, nil) }

// appendPods adds pods with these names.
func appendPods(t *testing.T, r *rig.Rig, names ...string) {
	t.Helper()
	for _, name := range names {
		rig.Must(t, r.Write(name+".yaml", manifest(name, container(strings.ToLower(name), "serve"))))
	}
}
