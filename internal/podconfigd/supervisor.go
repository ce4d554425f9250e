package podconfigd

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/sourceconfig"
	"github.com/podstream/podstream/internal/sources"
)

// supervisor runs the sources that a plan names, each in a goroutine of its own, and goes from one plan to the next: whatever is the
// same in both notices nothing. But for what says otherwise, its methods are called from one goroutine.
type supervisor struct {
	// node is podconfigd's own.
	node string
	// build makes the reader of a source, and starts nothing. Its errors name the source.
	build func(sourceconfig.Source) (sources.Source, error)
	// configure and apply are the Hub's; configured are the sources of a plan as the Hub takes them.
	configure  func([]merge.Source)
	configured func(*sourceconfig.Plan) []merge.Source
	apply      func(manifest.Set)
	// follow has the objects of a source followed until ctx ends; forget drops what is known of the objects of one that went.
	follow func(ctx context.Context, source string, objects sources.ObjectSource) error
	forget func(source string)
	log    *slog.Logger

	// plan is the one in force. Anybody may load it.
	plan atomic.Pointer[sourceconfig.Plan]
	// failed gets the error of a source of the first plan that ended by itself.
	failed chan error

	// mu guards running, which others look at.
	mu      sync.Mutex
	running map[string]*reader
}

// reader is a source that runs, or has ended by itself.
type reader struct {
	entry  sourceconfig.Source
	source sources.Source
	stop   context.CancelFunc
	// ended is closed when the goroutine has ended; err is what it ended with.
	ended chan struct{}
	err   error
}

// broken tells whether the source has ended by itself, so that a reload tries it anew.
func (r *reader) broken() bool {
	select {
	case <-r.ended:
		return r.err != nil
	default:
		return false
	}
}

// parseManifest reads a manifest that isn't there as the file sources of the plan in force would. Anybody may call it.
func (s *supervisor) parseManifest(origin string, data []byte) *manifest.Origin {
	return manifest.Parse(data, manifest.Options{Origin: origin, Node: s.node, Strict: s.plan.Load().Strict})
}

// start runs the sources of the first plan, which the Hub has been made with. If one of them ends with an error, that comes on failed.
func (s *supervisor) start(ctx context.Context, plan *sourceconfig.Plan) error {
	begin, err := s.buildAll(plan.Sources)
	if err != nil {
		return err
	}
	s.failed = make(chan error, len(begin))
	s.mu.Lock()
	s.running = map[string]*reader{}
	s.mu.Unlock()
	s.plan.Store(plan)
	for _, r := range begin {
		s.begin(ctx, r, func(err error) { s.failed <- err })
	}
	return nil
}

// change goes over to another plan. If it can't, nothing has changed.
//
// A source that goes is stopped before the Hub is told, so that its last set isn't one of a source that is no longer configured; one
// that comes is started after that, so that its first set isn't. One whose settings changed stays configured: its pods stay until
// its new reader has read it well.
func (s *supervisor) change(ctx context.Context, next *sourceconfig.Plan) error {
	keep := map[string]bool{}
	var fresh []sourceconfig.Source
	for _, entry := range next.Sources {
		old := s.running[entry.Name]
		if old != nil && old.entry.Fingerprint == entry.Fingerprint && !old.broken() {
			keep[entry.Name] = true
		} else {
			fresh = append(fresh, entry)
		}
	}
	begin, err := s.buildAll(fresh)
	if err != nil {
		return err
	}
	gone := s.end(func(name string) bool { return !keep[name] })
	s.plan.Store(next)
	s.configure(s.configured(next))
	for _, name := range gone {
		if !slices.ContainsFunc(next.Sources, func(entry sourceconfig.Source) bool { return entry.Name == name }) {
			s.forget(name)
		}
	}
	for _, r := range begin {
		s.begin(ctx, r, func(err error) {
			s.log.Error("source has ended; it is tried again when the configuration is read next", "source", r.entry.Name, "err", err)
			s.apply(manifest.Set{Source: r.entry.Name, ReadTime: time.Now(), Err: err})
		})
	}
	return nil
}

// buildAll makes all readers, or none.
func (s *supervisor) buildAll(entries []sourceconfig.Source) ([]*reader, error) {
	var out []*reader
	for _, entry := range entries {
		source, err := s.build(entry)
		if err != nil {
			return nil, err
		}
		out = append(out, &reader{entry: entry, source: source, ended: make(chan struct{})})
	}
	return out, nil
}

// begin runs a reader. failed is called, before it counts as ended, if it ends with an error.
func (s *supervisor) begin(ctx context.Context, r *reader, failed func(error)) {
	ctx, r.stop = context.WithCancel(ctx)
	s.mu.Lock()
	s.running[r.entry.Name] = r
	s.mu.Unlock()
	go func() {
		defer close(r.ended)
		if err := s.read(ctx, r); err != nil && ctx.Err() == nil {
			r.err = err
			failed(fmt.Errorf("source %s: %w", r.entry.Name, r.err))
		}
	}()
}

// read reads a source, and its objects if it has to be asked for them.
func (s *supervisor) read(ctx context.Context, r *reader) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.source.Run(ctx, s.apply) })
	if objects, ok := r.source.(sources.ObjectSource); ok {
		group.Go(func() error { return s.follow(ctx, r.entry.Name, objects) })
	}
	return group.Wait()
}

// end stops the readers that it shall, and returns their names when they have ended.
func (s *supervisor) end(which func(name string) bool) (names []string) {
	s.mu.Lock()
	var ending []*reader
	for name, r := range s.running {
		if which(name) {
			r.stop()
			ending, names = append(ending, r), append(names, name)
			delete(s.running, name)
		}
	}
	s.mu.Unlock()
	for _, r := range ending {
		<-r.ended
	}
	return names
}

// stop ends all readers.
func (s *supervisor) stop() { s.end(func(string) bool { return true }) }
