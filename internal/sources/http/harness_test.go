package http

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/podstream/podstream/internal/logtest"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/sources"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ sources.Source = (*Source)(nil)

// patience is how long a test waits for an expected event. Only a failing test waits that long.
const patience = 30 * time.Second

// pod returns an item of a list. The image makes versions of it.
func pod(name, image string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q},"spec":{"containers":[{"name":"main","image":%q}]}}`, name, image)
}

func list(items ...string) string {
	return `{"apiVersion":"v1","kind":"PodList","items":[` + strings.Join(items, ",") + `]}`
}

// running is a Source under test, and its sets.
type running struct {
	t      testing.TB
	sets   chan manifest.Set
	clock  steps
	timer  *step
	log    *logtest.Buffer
	merger *merge.Merger
	cancel context.CancelFunc
	done   chan error
}

// run starts a Source. It ends with the test.
func run(t testing.TB, cfg Config) *running {
	t.Helper()
	r := &running{
		t: t, sets: make(chan manifest.Set, 1), clock: steps{timers: make(chan *step, 1)}, log: &logtest.Buffer{},
		merger: merge.New([]merge.Source{{Name: "http"}}, merge.Stored{}), done: make(chan error, 1),
	}
	r.clock.timeout, r.clock.expired = 10*time.Second, make(chan time.Time)
	cfg.Node, cfg.Clock, cfg.Logger = "node", r.clock, slog.New(slog.NewTextHandler(r.log, nil))
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() { r.done <- s.Run(ctx, func(set manifest.Set) { r.sets <- set }) }()
	t.Cleanup(func() {
		cancel()
		if err := await(t, r.done, "the end of Run"); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return r
}

func await[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

// poll returns the next set, and the result of its merge.
func (r *running) poll() (manifest.Set, *revision.Revision) {
	r.t.Helper()
	r.ask()
	return r.hear()
}

// ask starts a poll, and hear waits for its result.
func (r *running) ask() {
	if r.timer != nil {
		r.timer.c <- time.Time{}
	}
}

func (r *running) hear() (manifest.Set, *revision.Revision) {
	r.t.Helper()
	set := await(r.t, r.sets, "a set")
	r.timer = await(r.t, r.clock.timers, "the wait for the next poll")
	if set.Source != "http" || set.ReadTime.IsZero() || set.Err != nil && set.Origins != nil {
		r.t.Errorf("the set is %+v", set)
	}
	return set, r.merger.Apply(set)
}

// expect polls once, and expects these origins.
func (r *running) expect(want ...string) manifest.Set {
	r.t.Helper()
	set, _ := r.poll()
	if set.Err != nil {
		r.t.Fatalf("error %v, want %q", set.Err, want)
	}
	if got := show(set); !slices.Equal(got, want) {
		r.t.Fatalf("the set is %q, want %q; log:\n%s", got, want, r.log)
	}
	return set
}

// fails polls once, and expects an error with this text.
func (r *running) fails(want string) error {
	r.t.Helper()
	r.ask()
	return r.failed(want)
}

// timesOut polls once with a request that stalls, and expects an error with this text at its timeout.
func (r *running) timesOut(s *server, want string) error {
	r.t.Helper()
	r.ask()
	await(r.t, s.stalled, "the request")
	r.clock.expired <- time.Time{}
	return r.failed(want)
}

func (r *running) failed(want string) error {
	r.t.Helper()
	set, rev := r.hear()
	if set.Err == nil || !strings.Contains(set.Err.Error(), want) {
		r.t.Fatalf("error %v, want %q; the set is %q", set.Err, want, show(set))
	}
	if rev != nil {
		r.t.Errorf("an error changed something: %+v", rev)
	}
	return set.Err
}

// serves returns the number of served pods.
func (r *running) serves() int { return r.merger.Sources()[0].Pods }

// show returns the fields of a Set that tests compare: for each origin its name within the URL, its pods' images and objects, and
// "held".
func show(set manifest.Set) []string {
	lines := []string{}
	for _, o := range set.Origins {
		_, line, ok := strings.Cut(o.Name, "#")
		if !ok {
			line = "whole"
		}
		for _, p := range o.Pods {
			line += "=" + p.Spec.Containers[0].Image
		}
		for range o.Objects {
			line += " object"
		}
		if o.Held {
			line += " held"
		}
		lines = append(lines, line)
	}
	return lines
}
