package relay

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/logtest"
	"github.com/podstream/podstream/internal/manifest"
)

// sets are the sets of a relay.
type sets struct {
	*Source
	t    *testing.T
	log  *logtest.Buffer
	stop func()

	mu   sync.Mutex
	all  []manifest.Set
	seen int
	more chan struct{}
}

// relay runs a relay that passes its sets to d's hub, unless d is nil. Empty fields of the Config get defaults.
func relay(t *testing.T, d *podconfigd, cfg Config) *sets {
	t.Helper()
	s := &sets{t: t, log: &logtest.Buffer{}, more: make(chan struct{}, 1)}
	apply := func(manifest.Set) {}
	if d != nil {
		apply, cfg.ID, cfg.Node = d.hub.Apply, d.id, d.node
	} else {
		cfg.ID, cfg.Node = "own-id", "own-node"
	}
	if cfg.Nodes == nil {
		cfg.Nodes = []string{EveryNode}
	}
	if cfg.Backoff == (Backoff{}) {
		cfg.Backoff = quick
	}
	cfg.Logger = slog.New(slog.NewTextHandler(s.log, nil))
	source, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Heartbeat > 0 {
		// It is shorter than the configurable minimum, for tests of a silent upstream.
		source.cfg.Heartbeat = cfg.Heartbeat
	}
	s.Source = source
	if d != nil {
		d.mu.Lock()
		d.relays = append(d.relays, source)
		d.mu.Unlock()
	}
	s.stop = inBackground(t, func(ctx context.Context) error {
		return source.Run(ctx, func(set manifest.Set) {
			apply(set)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.all = append(s.all, set)
			token(s.more)
		})
	})
	return s
}

// inBackground runs run until the test ends, or stop is called. stop waits for its end, which must be without
// an error.
func inBackground(t *testing.T, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run returns %v; want nil", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// next waits for the next set that satisfies the condition.
func (s *sets) next(what string, wanted func(manifest.Set) bool) manifest.Set {
	s.t.Helper()
	late := time.After(deadline)
	for {
		s.mu.Lock()
		for s.seen < len(s.all) {
			set := s.all[s.seen]
			s.seen++
			if wanted(set) {
				s.mu.Unlock()
				return set
			}
		}
		s.mu.Unlock()
		select {
		case <-s.more:
		case <-late:
			s.t.Fatalf("no set %s in %v; the log:\n%s", what, deadline, s.log)
		}
	}
}

// drop skips the sets until now.
func (s *sets) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = len(s.all)
}

// last returns the last set, or the zero value if there was none.
func (s *sets) last() manifest.Set {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 {
		return manifest.Set{}
	}
	return s.all[len(s.all)-1]
}

// good waits for the next set without an error.
func (s *sets) good() manifest.Set {
	s.t.Helper()
	return s.next("without an error", func(set manifest.Set) bool { return set.Err == nil })
}

// failed waits for a set with an error that has the text.
func (s *sets) failed(text string) error {
	s.t.Helper()
	return s.next("with the error "+text, func(set manifest.Set) bool {
		return set.Err != nil && strings.Contains(set.Err.Error(), text)
	}).Err
}

// origins returns the names of a set's origins. A held one ends in an exclamation mark.
func origins(set manifest.Set) string {
	var out []string
	for _, o := range set.Origins {
		name := o.Name
		if o.Held {
			name += "!"
		}
		out = append(out, name)
	}
	return strings.Join(out, ", ")
}
