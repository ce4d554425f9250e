package localstorage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/decide/status"
	"github.com/podstream/podstream/internal/execsvc/reclaim/diskusage"
)

// watch runs a Manager of the place and these pods in a bubble, whose time do advances. It returns the evicted pods.
func (p *place) watch(t *testing.T, pods []*v1.Pod, do func(evicted func() map[types.UID]string), more func(*Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		evicted := map[types.UID]string{}
		p.t = t
		cfg := p.config()
		cfg.Pods = func() []*v1.Pod {
			mu.Lock()
			defer mu.Unlock()
			var left []*v1.Pod
			for _, pod := range pods {
				if evicted[pod.UID] == "" {
					left = append(left, pod)
				}
			}
			return left
		}
		cfg.Evict = func(uid types.UID, failure status.Failure) bool {
			mu.Lock()
			defer mu.Unlock()
			if failure.Reason != "Evicted" || failure.Disrupted || evicted[uid] != "" {
				t.Errorf("pod %s is evicted with %+v", uid, failure)
			}
			evicted[uid] = failure.Message
			return true
		}
		if more != nil {
			more(&cfg)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { New(cfg).Run(ctx) })
		do(func() map[types.UID]string {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			out := map[types.UID]string{}
			for uid, message := range evicted {
				out[uid] = message
			}
			return out
		})
		cancel()
		running.Wait()
	})
}

// pass advances the time, and waits until all due work is done.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// A pod is evicted within ten seconds after it exceeds a limit, and other pods aren't.
func TestEvictsPodsOverLimit(t *testing.T) {
	p := newPlace(t)
	registry := prometheus.NewRegistry()
	evictions := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "n"}, []string{"signal"})
	registry.MustRegister(evictions)
	volume, container, good := withDir(podOf("v"), "x", "1Mi"), limited(podOf("c"), "1Mi"), limited(withDir(podOf("g"), "x", "1Mi"), "1Mi")
	p.watch(t, []*v1.Pod{volume, podOf("n"), container, good}, func(evicted func() map[types.UID]string) {
		pass(9 * time.Second)
		write(t, mi, p.dir(volume, "x"), "file")
		p.layer("c", "main", 0, mi+1)
		if diff := cmp.Diff(map[types.UID]string{}, evicted()); diff != "" {
			t.Errorf("evicted too soon (-want +got):\n%s", diff)
		}
		pass(time.Second)
		want := map[types.UID]string{
			"v": `Usage of EmptyDir volume "x" exceeds the limit "1Mi". `,
			"c": "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. ",
		}
		if diff := cmp.Diff(want, evicted()); diff != "" {
			t.Errorf("evicted (-want +got):\n%s", diff)
		}
		pass(time.Minute)
		if diff := cmp.Diff(want, evicted()); diff != "" {
			t.Errorf("evicted later (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]float64{"emptydirfs.limit": 1, "ephemeralpodfs.limit": 1}, counted(t, registry)); diff != "" {
			t.Errorf("counted (-want +got):\n%s", diff)
		}
	}, func(cfg *Config) { cfg.Evictions = evictions })
}

// counted returns the counters by label.
func counted(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			out[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
		}
	}
	return out
}

// While no pod has a limit, neither the meter nor the runtime is called.
func TestIdle(t *testing.T) {
	free := []*v1.Pod{withDir(podOf("a"), "x", ""), podOf("b")}
	for want, pods := range map[int][]*v1.Pod{0: free, 12: append(free, limited(podOf("c"), "1Gi"))} {
		p := newPlace(t)
		p.watch(t, pods, func(func() map[types.UID]string) {
			pass(time.Minute)
			if n := p.takeLooked(); n != want {
				t.Errorf("with %d pods there were %d calls in a minute; want %d", len(pods), n, want)
			}
		}, nil)
	}
}

// A hanging runtime delays no pod by more than a few seconds: the known part counts.
func TestRuntimeHangs(t *testing.T) {
	p := newPlace(t)
	p.setHold(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	full := limited(withDir(podOf("full"), "x", "1Mi"), "1Gi")
	pods := []*v1.Pod{full}
	for i := range 5 * layerConcurrency {
		pods = append(pods, limited(podOf(types.UID(fmt.Sprint(i))), "1Gi"))
	}
	write(t, mi, p.dir(full, "x"), "file")
	p.watch(t, pods, func(evicted func() map[types.UID]string) {
		pass(10*time.Second + layerTimeout)
		want := map[types.UID]string{"full": `Usage of EmptyDir volume "x" exceeds the limit "1Mi". `}
		if diff := cmp.Diff(want, evicted()); diff != "" {
			t.Errorf("evicted (-want +got):\n%s", diff)
		}
	}, nil)
}

// Files that are hard to count don't keep a pod from being evicted: not deep ones, not many elsewhere, not files
// outside of volumes.
func TestEvictsPodsWithHiddenFiles(t *testing.T) {
	p := newPlace(t)
	deep := limited(withDir(podOf("deep"), "x", "1Mi"), "2Mi")
	write(t, 20*mi, p.dir(deep, "x"), strings.Repeat("d/", 300), "big")
	const most = 1000
	crowd := withDir(withDir(podOf("crowd"), "a", "1Gi"), "b", "1Mi")
	for i := range most + 100 {
		write(t, 0, p.dir(crowd, "a"), strconv.Itoa(i))
	}
	write(t, 20*mi, p.dir(crowd, "b"), "big")
	hosts, message := limited(podOf("hosts"), "2Mi"), limited(podOf("message"), "2Mi")
	write(t, 20*mi, p.root, "pods/hosts/etc-hosts")
	write(t, 20*mi, p.root, "pods/message/containers/main/00000000")
	good := limited(withDir(podOf("good"), "x", "1Mi"), "2Mi")
	write(t, mi/2, p.dir(good, "x"), "file")
	p.watch(t, []*v1.Pod{deep, crowd, hosts, message, good}, func(evicted func() map[types.UID]string) {
		pass(10 * time.Second)
		total := "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. "
		want := map[types.UID]string{
			"deep": `Usage of EmptyDir volume "x" exceeds the limit "1Mi". `, "hosts": total, "message": total,
			"crowd": "Usage of EmptyDir volume",
		}
		got := evicted()
		// The file system decides which volume is counted first.
		got["crowd"] = got["crowd"][:min(len(want["crowd"]), len(got["crowd"]))]
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("evicted (-want +got):\n%s", diff)
		}
	}, func(cfg *Config) { cfg.Meter = p.files(diskusage.Config{MaxFiles: most}) })
}

// An error is logged once, and again if it changes or returns.
func TestMeasureErrorsAreLogged(t *testing.T) {
	p := newPlace(t)
	fail := func(text string) { p.setHold(func(context.Context) error { return errors.New(text) }) }
	var log bytes.Buffer
	p.watch(t, []*v1.Pod{limited(podOf("a"), "1Gi")}, func(func() map[types.UID]string) {
		for _, step := range []struct {
			text string
			want int
		}{{"down", 1}, {"away", 1}, {"", 0}, {"away", 1}} {
			log.Reset()
			fail(step.text)
			if step.text == "" {
				p.setHold(nil)
			}
			pass(30 * time.Second)
			if got := strings.Count(log.String(), "\n"); got != step.want || step.want > 0 && !strings.Contains(log.String(), "writable layers: "+step.text) {
				t.Errorf("with %q the log has %q; want %d lines", step.text, log.String(), step.want)
			}
		}
	}, func(cfg *Config) { cfg.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
}
