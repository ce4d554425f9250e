package apiserver

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/time/rate"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources/apiserver/apitest"
)

const node = "n1"

func TestMain(m *testing.M) {
	// client-go watches certificate files until the client is garbage collected, and a test can't wait for
	// that.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("k8s.io/client-go/transport.(*dynamicClientCert).run"),
		goleak.IgnoreAnyFunction("k8s.io/client-go/transport.(*dynamicClientCert).processNextWorkItem"),
		goleak.IgnoreAnyFunction("k8s.io/apimachinery/pkg/util/wait.PollImmediateUntil"),
		goleak.IgnoreAnyFunction("k8s.io/apimachinery/pkg/util/wait.poller.func1.1"),
		goleak.IgnoreAnyFunction("k8s.io/client-go/util/workqueue.(*delayingType[...]).waitingLoop"),
		goleak.IgnoreAnyFunction("k8s.io/client-go/util/workqueue.(*Typed[...]).updateUnfinishedWorkLoop"),
	)
}

// reading is a running Source, and the sets that it handed over.
type reading struct {
	t testing.TB

	mu      sync.Mutex
	changed chan struct{}
	sets    []manifest.Set
	ended   bool
	stop    func()
}

// newSource returns a Source for the tests' node, with short backoff.
func newSource(t testing.TB, cfg Config) *Source {
	t.Helper()
	if cfg.Node == "" {
		cfg.Node = node
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.backoff.Duration, s.backoff.Cap = 2*time.Millisecond, 50*time.Millisecond
	s.pace = rate.Inf
	return s
}

// read runs a Source of the server until the test ends.
func read(t testing.TB, server *apitest.Server) *reading {
	t.Helper()
	return start(t, newSource(t, Config{RESTConfig: server.RESTConfig(apitest.Identity{})}))
}

func start(t testing.TB, s *Source) *reading {
	t.Helper()
	r := &reading{t: t, changed: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Run(ctx, r.take); err != nil {
			t.Errorf("Run returned %v", err)
		}
	}()
	r.stop = func() {
		cancel()
		select {
		case <-done:
		case <-time.After(30 * time.Second):
			t.Error("Run hasn't ended 30 s after its context")
		}
		r.mu.Lock()
		r.ended = true
		r.mu.Unlock()
	}
	t.Cleanup(r.stop)
	return r
}

func (r *reading) take(set manifest.Set) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		r.t.Error("a set came after Run had returned")
	}
	if set.Source != Name || set.ReadTime.IsZero() {
		r.t.Errorf("a set of source %q, read at %v", set.Source, set.ReadTime)
	}
	if !slices.IsSortedFunc(set.Origins, func(a, b *manifest.Origin) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	}) {
		r.t.Error("a set isn't in the order of its origins' names")
	}
	r.sets = append(r.sets, set)
	close(r.changed)
	r.changed = make(chan struct{})
}

// all returns the sets so far.
func (r *reading) all() ([]manifest.Set, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.sets), r.changed
}

// await waits for a set that satisfies the condition, after the first `after` sets, and returns it and the
// number of sets then.
func (r *reading) await(what string, after int, so func(manifest.Set) bool) (manifest.Set, int) {
	r.t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	for {
		sets, changed := r.all()
		for i := after; i < len(sets); i++ {
			if so(sets[i]) {
				return sets[i], i + 1
			}
		}
		select {
		case <-changed:
		case <-deadline.C:
			var last string
			if len(sets) > 0 {
				last = describe(sets[len(sets)-1])
			}
			r.t.Fatalf("%s: no such set; there were %d, the last: %s", what, len(sets), last)
		}
	}
}

// awaitPods waits for a set of exactly these pods.
func (r *reading) awaitPods(after int, names ...string) (manifest.Set, int) {
	r.t.Helper()
	slices.Sort(names)
	return r.await(fmt.Sprint("pods ", names), after, func(s manifest.Set) bool {
		return s.Err == nil && slices.Equal(originNames(s), names)
	})
}

func (r *reading) awaitErr(after int) (manifest.Set, int) {
	r.t.Helper()
	return r.await("an error", after, func(s manifest.Set) bool { return s.Err != nil })
}

func describe(s manifest.Set) string {
	if s.Err != nil {
		return "error " + s.Err.Error()
	}
	return fmt.Sprint(originNames(s))
}

func originNames(s manifest.Set) []string {
	names := make([]string, 0, len(s.Origins))
	for _, o := range s.Origins {
		names = append(names, o.Name)
	}
	return names
}

// podOf returns the only pod of the origin.
func podOf(t testing.TB, s manifest.Set, name string) *manifest.Pod {
	t.Helper()
	for _, o := range s.Origins {
		if o.Name == name && len(o.Pods) == 1 {
			return o.Pods[0]
		}
	}
	t.Fatalf("no origin %s with one pod; there are %v", name, originNames(s))
	return nil
}
