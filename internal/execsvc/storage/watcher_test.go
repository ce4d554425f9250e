package storage

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/status"
)

// watch has a Watcher of the place and these pods run in a bubble, whose time passes as do lets it. It returns who was evicted.
func (p *place) watch(t *testing.T, pods []*v1.Pod, do func(evicted func() map[types.UID]string), more func(*Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		evicted := map[types.UID]string{}
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

// pass lets time pass, and waits until what is due is done.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// A pod is evicted within ten seconds of exceeding a limit, and others aren't.
func TestEvictsWhatExceeds(t *testing.T) {
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

// counted are the counts by their label.
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

// While no pod has a limit, neither the disk nor the runtime is asked for anything.
func TestIdle(t *testing.T) {
	free := []*v1.Pod{withDir(podOf("a"), "x", ""), podOf("b")}
	for want, pods := range map[int][]*v1.Pod{0: free, 6: append(free, limited(podOf("c"), "1Gi"))} {
		p := newPlace(t)
		p.watch(t, pods, func(func() map[types.UID]string) {
			pass(time.Minute)
			if n := p.takeLooked(); n != want {
				t.Errorf("with %d pods, %d things were looked at in a minute; want %d", len(pods), n, want)
			}
		}, nil)
	}
}

// A pod that takes long to be measured is left alone for nine times as long.
func TestSlowPodsRest(t *testing.T) {
	p := newPlace(t)
	p.setHold(func(context.Context) error { time.Sleep(4 * time.Second); return nil })
	p.watch(t, []*v1.Pod{limited(podOf("a"), "1Gi")}, func(func() map[types.UID]string) {
		pass(10 * time.Second)
		for round := range 3 {
			if n := p.takeLooked(); n != 1 {
				t.Errorf("round %d: the runtime was asked %d times; want once", round, n)
			}
			// From 10 to 14 s it is measured, and due at 50; rounds are at 24, 34, 44 and 54.
			pass(39 * time.Second)
			if n := p.takeLooked(); n != 0 {
				t.Errorf("round %d: it isn't left alone", round)
			}
			pass(5 * time.Second)
		}
	}, nil)
}

// A runtime that hangs costs a pod's turn and no more: what is known counts.
func TestRuntimeHangs(t *testing.T) {
	p := newPlace(t)
	p.setHold(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	stuck, full := limited(podOf("stuck"), "1Gi"), limited(withDir(podOf("full"), "x", "1Mi"), "1Gi")
	write(t, mi, p.dir(full, "x"), "file")
	p.watch(t, []*v1.Pod{stuck, full}, func(evicted func() map[types.UID]string) {
		pass(30 * time.Second)
		want := map[types.UID]string{"full": `Usage of EmptyDir volume "x" exceeds the limit "1Mi". `}
		if diff := cmp.Diff(want, evicted()); diff != "" {
			t.Errorf("evicted (-want +got):\n%s", diff)
		}
	}, nil)
}

// What is wrong is told once, and again if it is something else or was well in between.
func TestTroubleIsTold(t *testing.T) {
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
