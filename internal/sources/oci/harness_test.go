package oci

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/logtest"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/sources"
	"github.com/podstream/podstream/internal/sources/oci/ocitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ sources.Source = (*Source)(nil)

// patience is how long a test waits for an expected event. Only a failing test waits that long.
const patience = 30 * time.Second

// steps is a clock whose timers the test fires.
type steps struct {
	clock.RealClock
	timers chan *step
	// A value that is sent to expired ends the time of the current reading.
	expired chan time.Time
}

type step struct {
	wait time.Duration
	c    chan time.Time
}

// timeout is a reading's, by which the clock recognizes its timer.
const timeout = 17 * time.Second

func (s steps) NewTimer(d time.Duration) clock.Timer {
	if d == timeout {
		return &step{c: s.expired}
	}
	t := &step{wait: d, c: make(chan time.Time, 1)}
	s.timers <- t
	return t
}

func (t *step) C() <-chan time.Time { return t.c }

func (t *step) Stop() bool { return true }

func (t *step) Reset(time.Duration) bool { return true }

// node is a node with one source, over restarts of podconfigd. Its merge is podconfigd's, with what the store keeps.
type node struct {
	t      *testing.T
	cfg    Config
	merger *merge.Merger
	log    *logtest.Buffer

	source *Source
	clock  steps
	sets   chan manifest.Set
	timer  *step
	cancel context.CancelFunc
	done   chan error
	// restored is the set of the stored artifact; nil: there was none.
	restored *manifest.Set
}

// newNode starts the source of a node. It ends with the test.
func newNode(t *testing.T, cfg Config) *node {
	t.Helper()
	n := &node{t: t, cfg: cfg, log: &logtest.Buffer{}, merger: merge.New([]merge.Source{{Name: "oci"}}, merge.Stored{})}
	if n.cfg.Dir == "" {
		n.cfg.Dir = filepath.Join(t.TempDir(), "oci", "oci")
	}
	t.Cleanup(n.stop)
	n.start()
	return n
}

// start starts the source, and waits for its first reading. The set of the stored artifact, if there is one, comes before.
func (n *node) start() {
	n.t.Helper()
	n.clock = steps{timers: make(chan *step, 1), expired: make(chan time.Time)}
	cfg := n.cfg
	cfg.Node, cfg.Clock, cfg.Timeout = "node", n.clock, timeout
	cfg.Logger = slog.New(slog.NewTextHandler(n.log, nil))
	s, err := New(cfg)
	if err != nil {
		n.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	sets, done := make(chan manifest.Set), make(chan error, 1)
	n.source, n.cancel, n.sets, n.done, n.timer, n.restored = s, cancel, sets, done, nil, nil
	go func() {
		done <- s.Run(ctx, func(set manifest.Set) {
			select {
			case sets <- set:
			case <-ctx.Done():
			}
		})
	}()
}

// stop ends the source, as podconfigd's end does.
func (n *node) stop() {
	if n.cancel == nil {
		return
	}
	n.cancel()
	n.cancel = nil
	if err := await(n.t, n.done, "the end of Run"); err != nil {
		n.t.Errorf("Run: %v", err)
	}
}

// restart starts podconfigd again: its store has the pods.
func (n *node) restart() {
	n.t.Helper()
	n.stop()
	n.start()
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

// poll returns the set of the next reading, and what the merge made of it.
func (n *node) poll() (manifest.Set, *revision.Revision) {
	n.t.Helper()
	if n.timer != nil {
		n.timer.c <- time.Time{}
	}
	return n.hear()
}

// hear returns the set of a reading that is under way.
func (n *node) hear() (manifest.Set, *revision.Revision) {
	n.t.Helper()
	first := n.timer == nil
	for {
		set := await(n.t, n.sets, "a set")
		rev := n.merger.Apply(set)
		if set.Source != "oci" || set.ReadTime.IsZero() || set.Err != nil && set.Origins != nil {
			n.t.Errorf("the set is %+v", set)
		}
		select {
		case n.timer = <-n.clock.timers:
			return set, rev
		case next := <-n.sets:
			if !first {
				n.t.Fatal("there are two sets of one reading")
			}
			n.restored = &set
			rev = n.merger.Apply(next)
			n.timer = await(n.t, n.clock.timers, "the wait for the next reading")
			return next, rev
		case <-time.After(patience):
			n.t.Fatal("waited in vain for the next reading")
		}
	}
}

// expect reads once, and expects these origins.
func (n *node) expect(want ...string) manifest.Set {
	n.t.Helper()
	set, _ := n.poll()
	if set.Err != nil {
		n.t.Fatalf("error %v; want %q; log:\n%s", set.Err, want, n.log)
	}
	if got := show(set); !slices.Equal(got, want) {
		n.t.Fatalf("the set is %q; want %q; log:\n%s", got, want, n.log)
	}
	return set
}

// refuses reads once, and expects an error with these texts. It changes nothing.
func (n *node) refuses(want ...string) error {
	n.t.Helper()
	set, rev := n.poll()
	n.checkRefusal(set, rev, want...)
	return set.Err
}

func (n *node) checkRefusal(set manifest.Set, rev *revision.Revision, want ...string) {
	n.t.Helper()
	if set.Err == nil {
		n.t.Fatalf("no error; want %q; the set is %q", want, show(set))
	}
	for _, text := range append(want, "artifact oci://") {
		if !strings.Contains(set.Err.Error(), text) {
			n.t.Fatalf("error %v; want %q", set.Err, text)
		}
	}
	if rev != nil {
		n.t.Errorf("an error changed something: %+v", rev)
	}
	if strings.Contains(set.Err.Error(), "hunter2") || strings.ContainsAny(set.Err.Error(), "\n\x1b") || len(set.Err.Error()) > 800 {
		n.t.Errorf("the error is %q", set.Err)
	}
}

// serves returns the number of served pods.
func (n *node) serves() int { return n.merger.Sources()[0].Pods }

// ready reports whether the source is ready.
func (n *node) ready() bool { return n.merger.Sources()[0].Ready }

// show returns the fields of a Set that tests compare: for each origin its path, its pods' images and objects, and "held" or
// its other finding.
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
		switch {
		case o.Held:
			line += " held"
		case len(o.Findings) > 0:
			line += " noted"
		}
		lines = append(lines, line)
	}
	return lines
}

// pods returns manifests of pods, from their names and images.
func pods(namesAndImages ...string) map[string]string {
	files := map[string]string{}
	for i := 0; i < len(namesAndImages); i += 2 {
		files[namesAndImages[i]+".yaml"] = ocitest.Pod(namesAndImages[i], namesAndImages[i+1])
	}
	return files
}

// write writes a file in a directory of the test.
func write(t testing.TB, dir, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// at is a time of creation.
func at(second int) time.Time { return time.Date(2026, 1, 2, 3, 4, second, 0, time.UTC) }
