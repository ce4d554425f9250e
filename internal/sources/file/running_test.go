package file

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/podstream/podstream/internal/logtest"
	"github.com/podstream/podstream/internal/manifest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for an expected event. Only a failing test waits that long.
const patience = 30 * time.Second

// pod returns a manifest. The image makes versions of it.
func pod(name, image string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: %s
spec:
  containers:
  - name: main
    image: %s
`, name, image)
}

// running is a Source under test, and its sets.
type running struct {
	last *manifest.Set
	t    testing.TB
	sets chan manifest.Set
	log  *logtest.Buffer
}

// runWith is run with the test's own watch.
func runWith(t testing.TB, cfg Config, open func(string) (*watch, error)) *running {
	t.Helper()
	return run(t, cfg, func(s *Source) { s.open = open })
}

// noLeases runs the Source as if the kernel didn't report writers.
func noLeases(s *Source) { s.writersOf = func(*os.File) writers { return writersUnknown } }

// run starts a Source, prepared as the test needs it. It ends with the test.
func run(t testing.TB, cfg Config, prepare ...func(*Source)) *running {
	t.Helper()
	r := &running{t: t, sets: make(chan manifest.Set, 1<<16), log: &logtest.Buffer{}}
	cfg.Node = "node"
	if cfg.CheckFrequency == 0 {
		// Comparisons run only when a test triggers them.
		cfg.CheckFrequency = time.Hour
	}
	if cfg.QuietPeriod == 0 {
		cfg.QuietPeriod = 50 * time.Millisecond
	}
	cfg.Logger = slog.New(slog.NewTextHandler(r.log, nil))
	s := New(cfg)
	for _, p := range prepare {
		p(s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, func(set manifest.Set) { r.sets <- set }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return r
}

// next returns the next Set that differs from the one before. The others only show that the source is alive.
func (r *running) next() manifest.Set {
	r.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case set := <-r.sets:
			if r.last != nil && equalSets(*r.last, set) {
				continue
			}
			r.last = &set
			return set
		case <-deadline:
			r.t.Fatalf("no Set came; log:\n%s", r.log)
		}
	}
}

func equalSets(a, b manifest.Set) bool {
	return slices.Equal(a.Origins, b.Origins) && fmt.Sprint(a.Err) == fmt.Sprint(b.Err)
}

// expect checks that the next Set looks like this.
func (r *running) expect(want ...string) manifest.Set {
	r.t.Helper()
	set := r.next()
	if got := show(set); !slices.Equal(got, want) {
		r.t.Fatalf("the next Set is %q, want %q; log:\n%s", got, want, r.log)
	}
	return set
}

// await reads Sets until one looks like this.
func (r *running) await(want ...string) manifest.Set {
	r.t.Helper()
	deadline := time.After(patience)
	var seen []string
	for {
		select {
		case set := <-r.sets:
			got := show(set)
			r.last = &set
			if slices.Equal(got, want) {
				return set
			}
			seen = append(seen, fmt.Sprintf("%q", got))
		case <-deadline:
			r.t.Fatalf("no Set like %q came, but:\n%s\nlog:\n%s", want, strings.Join(seen, "\n"), r.log)
		}
	}
}

// show returns the fields of a Set that tests compare: "error", or for each origin its file's name, its pods as name=image, and
// "held" or "ignored".
func show(set manifest.Set) []string {
	if set.Err != nil {
		return []string{"error"}
	}
	lines := []string{}
	for _, o := range set.Origins {
		line := filepath.Base(o.Name)
		for _, p := range o.Pods {
			line += " " + strings.TrimSuffix(p.Name, "-node") + "=" + p.Spec.Containers[0].Image
		}
		if o.Held {
			line += " held"
		}
		if len(o.Findings) > 0 && o.Findings[0].Severity == manifest.Ignored {
			line += " ignored"
		}
		lines = append(lines, line)
	}
	return lines
}

// origin returns the origin of one file in a Set.
func origin(t testing.TB, set manifest.Set, base string) *manifest.Origin {
	t.Helper()
	for _, o := range set.Origins {
		if filepath.Base(o.Name) == base {
			return o
		}
	}
	t.Fatalf("no origin %s in %q", base, show(set))
	return nil
}
