package stats

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

const podGroup = "sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0f1e2d3c_0001_4000_8000_000000000001.slice"

// A container whose cgroup disappears is left out, and everything else is reported.
func TestContainerGoes(t *testing.T) {
	w := newWorld(t, "v2")
	w.containers = nil
	s := w.start()
	if text := ask(t, s.ResourceHandler(), "").Body.String(); !strings.Contains(text, `container="app"`) {
		t.Fatalf("nothing of the container:\n%s", text)
	}
	// Its directory is still listed, as between the listing and the reading.
	for _, file := range []string{"cpu.stat", "memory.stat"} {
		if err := os.Remove(w.path(podGroup + "/cri-containerd-app1.scope/" + file)); err != nil {
			t.Fatal(err)
		}
	}
	w.clock.SetTime(began.Add(15 * time.Second))
	text := ask(t, s.ResourceHandler(), "").Body.String()
	if strings.Contains(text, `container="app"`) || !strings.Contains(text, `pod_cpu_usage_seconds_total{namespace="shop",pod="web"} 12`) ||
		!strings.Contains(text, "resource_scrape_error 0") {
		t.Errorf("after the container was removed:\n%s", text)
	}
	if rec := ask(t, s.SummaryHandler(), ""); rec.Code != http.StatusOK || !strings.Contains(rec.Body.String(), `"containers":[]`) {
		t.Errorf("summary: %d %s", rec.Code, rec.Body)
	}
}

// A file that doesn't answer blocks requests only up to their time limit, and uses one goroutine. When it
// answers, requests do too.
func TestHungFile(t *testing.T) {
	w := newWorld(t, "v2")
	hung := w.path(podGroup + "/cri-containerd-app1.scope/memory.stat")
	if err := os.Remove(hung); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(hung, 0o600); err != nil {
		t.Fatal(err)
	}
	s := w.start(func(c *Config) { c.Timeout = 50 * time.Millisecond })
	for range 3 {
		if rec := ask(t, s.SummaryHandler(), "?only_cpu_and_memory=true"); !strings.Contains(rec.Body.String(), "still being read") {
			t.Errorf("while the file hangs: %d %s", rec.Code, rec.Body)
		}
	}
	if text := ask(t, s.ResourceHandler(), "").Body.String(); !strings.Contains(text, "resource_scrape_error 1") {
		t.Errorf("while the file hangs:\n%s", text)
	}
	s.brief.mu.Lock()
	ended := s.brief.underway
	s.brief.mu.Unlock()
	if ended == nil {
		t.Fatal("no reading is under way")
	}
	// The reader blocks in open until there is a writer.
	f, err := os.OpenFile(hung, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("anon 5\ninactive_file 7\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	<-ended
	text := ask(t, s.ResourceHandler(), "").Body.String()
	if !strings.Contains(text, `container_memory_working_set_bytes{container="app",namespace="shop",pod="web"} 5.0331641e+07`) {
		t.Errorf("after it answered:\n%s", text)
	}
}

// Requests during a reading, or within a second after it, don't start another one.
func TestOneReadingForAll(t *testing.T) {
	w := newWorld(t, "v1")
	blocked := &blockedRuntime{world: w, asked: make(chan struct{}), answer: make(chan struct{})}
	s := w.start(func(c *Config) { c.Runtime = blocked })
	var askers sync.WaitGroup
	for range 20 {
		askers.Go(func() {
			if rec := ask(t, s.SummaryHandler(), ""); rec.Code != http.StatusOK {
				t.Errorf("%d %s", rec.Code, rec.Body)
			}
		})
	}
	<-blocked.asked
	close(blocked.answer)
	askers.Wait()
	ask(t, s.CadvisorHandler(), "")
	if got := w.asked["containers"]; got != 1 {
		t.Errorf("the runtime was asked %d times; want once", got)
	}
	w.clock.SetTime(began.Add(2 * time.Second))
	ask(t, s.CadvisorHandler(), "")
	if got := w.asked["containers"]; got != 2 {
		t.Errorf("two seconds later the runtime was asked %d times; want twice", got)
	}
}

// blockedRuntime answers when the test allows it.
type blockedRuntime struct {
	*world
	once          sync.Once
	asked, answer chan struct{}
}

func (b *blockedRuntime) ListContainerStats(ctx context.Context, f *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error) {
	b.once.Do(func() { close(b.asked) })
	select {
	case <-b.answer:
		return b.world.ListContainerStats(ctx, f)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestRuntimeHangs: while the runtime doesn't answer, the summary has the values of the machine and of the cgroups.
func TestRuntimeHangs(t *testing.T) {
	w := newWorld(t, "v1")
	blocked := &blockedRuntime{world: w, asked: make(chan struct{}), answer: make(chan struct{})}
	s := w.start(func(c *Config) { c.Runtime, c.Timeout = blocked, time.Second })
	rec := ask(t, s.SummaryHandler(), "")
	var got statsapi.Summary
	if err := json.Unmarshal(rec.Body.Bytes(), &got); rec.Code != http.StatusOK || err != nil {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	if len(got.Pods) != 1 || got.Pods[0].CPU == nil || got.Node.CPU == nil {
		t.Errorf("the summary is %s", rec.Body)
	}
}

// Close ends requests that wait for the runtime, and later ones.
func TestClose(t *testing.T) {
	w := newWorld(t, "v2")
	blocked := &blockedRuntime{world: w, asked: make(chan struct{}), answer: make(chan struct{})}
	s := w.start(func(c *Config) { c.Runtime = blocked })
	ended := make(chan error)
	go func() {
		_, err := s.usage(t.Context(), false)
		ended <- err
	}()
	<-blocked.asked
	s.Close()
	if err := <-ended; err == nil {
		t.Error("a reading that was broken off has no error")
	}
	if _, err := s.usage(t.Context(), true); !errors.Is(err, errClosed) {
		t.Errorf("after Close: %v", err)
	}
}
