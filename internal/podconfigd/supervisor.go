package podconfigd

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/sourceconfig"
	"github.com/podstream/podstream/internal/sources"
)

const (
	// endPatience is how long a source may take to end. One that takes longer is abandoned.
	endPatience = 10 * time.Second
	// handoverPatience is how long removed sources stay for the added ones.
	handoverPatience = 30 * time.Second
)

// supervisor runs the sources of a plan, each in a goroutine of its own, and changes from one plan to the next
// without touching unchanged sources. One goroutine calls its methods, unless they say otherwise.
type supervisor struct {
	// node is podconfigd's own.
	node string
	// build makes the reader of a source, and starts nothing. Its errors name the source.
	build func(sourceconfig.Source) (sources.Source, error)
	// configure and apply are those of the hubs; configured returns the sources of a plan in the Hub's form.
	configure  func([]merge.Source)
	configured func(*sourceconfig.Plan) []merge.Source
	apply      func(manifest.Set)
	// follow follows the objects of a source until ctx ends; drop removes the objects of a removed source.
	follow func(ctx context.Context, source string, objects sources.ObjectSource) error
	drop   func(source string)
	// nodesChanged is called when a plan with other nodes is the current one, before a source of it gives a set, and after a
	// source has given its first good set of such a plan. Nil isn't called.
	nodesChanged func()
	// endPatience defaults to the constant.
	endPatience time.Duration
	log         *slog.Logger

	// plan is the current one. It may be loaded concurrently.
	plan atomic.Pointer[sourceconfig.Plan]
	// listed are the sources that were passed to the Hub.
	listed   []merge.Source
	handover handover
	// expired fires when expire has to be called, wake when attend has.
	expired *time.Timer
	wake    chan struct{}
	// logged is what was logged last of each source that can't be read.
	logged map[string]string

	// mu guards running and former, which other goroutines read.
	mu      sync.Mutex
	running map[string]*reader
	// former are the nodes that a source had before it got others, or left, until its new reader has given a good set, or it
	// is gone: the Hub has the pods of no further ones.
	former map[string]sources.Nodes
}

// parseManifest parses a manifest as the file sources of the current plan would. It is safe for concurrent use.
func (s *supervisor) parseManifest(origin string, data []byte) *manifest.Origin {
	return manifest.Parse(data, manifest.Options{Origin: origin, Node: s.node, Strict: s.plan.Load().Strict})
}

// start runs the sources of the first plan, with which the Hub was made.
func (s *supervisor) start(ctx context.Context, plan *sourceconfig.Plan) error {
	s.wake, s.logged = make(chan struct{}, 1), map[string]string{}
	s.expired = time.NewTimer(0)
	s.expired.Stop()
	s.endPatience, s.handover.patience = cmp.Or(s.endPatience, endPatience), cmp.Or(s.handover.patience, handoverPatience)
	s.mu.Lock()
	s.running, s.former = map[string]*reader{}, map[string]sources.Nodes{}
	s.mu.Unlock()
	begin, err := s.makeAll(plan.Sources)
	if err != nil {
		return err
	}
	s.plan.Store(plan)
	s.listed = s.configured(plan)
	for _, r := range begin {
		r.first = true
		s.begin(ctx, r)
	}
	return nil
}

// change changes to another plan. On an error nothing has changed.
//
// A removed source is stopped before the Hub is configured, so that its last set isn't one of an unconfigured source.
// An added one is started after that, so that its first set isn't, either. A source whose settings changed stays
// configured: its pods stay until its new reader has given a good set. If some are removed and others added, the pods
// of the removed ones stay for the time of a handover.
func (s *supervisor) change(ctx context.Context, next *sourceconfig.Plan) error {
	keep := map[string]bool{}
	var fresh []sourceconfig.Source
	for i, entry := range next.Sources {
		old := s.running[entry.Name]
		if old == nil || !old.fits(entry) {
			fresh = append(fresh, entry)
			continue
		}
		keep[entry.Name] = true
		if entry.Fingerprint != old.entry.Fingerprint {
			next.Sources[i].Location = old.entry.Location
			s.complain(entry.Name, "it goes on with what its files held before", entry.Problem)
		}
	}
	begin, err := s.makeAll(fresh)
	if err != nil {
		return err
	}
	s.end(func(name string) bool { return !keep[name] })
	former := s.plan.Load()
	gone := s.handover.change(former.Sources, next.Sources, time.Now())
	s.adopt(former, next)
	s.list(gone)
	for _, r := range begin {
		s.begin(ctx, r)
	}
	return nil
}

// list configures the Hub with the sources in order of priority: those of the plan, and then those that leave.
func (s *supervisor) list(gone []string) {
	now := append(s.configured(s.plan.Load()), s.handover.sources()...)
	if !slices.Equal(now, s.listed) {
		s.listed = now
		s.configure(now)
	}
	for _, name := range gone {
		s.drop(name)
		s.forget(name)
		delete(s.logged, name)
	}
	if at, ok := s.handover.next(); ok {
		s.expired.Reset(time.Until(at))
	} else {
		s.expired.Stop()
	}
}

// attend handles what the readers have done since the last call. It returns the error of a source of podconfigd's
// start that has ended without a set: it can't work. Any other source that ends keeps its pods, and is retried.
func (s *supervisor) attend() error {
	var gone []string
	for name, r := range s.running {
		if r.good.Load() {
			delete(s.logged, name)
			gone = append(gone, s.handover.heard(name)...)
		}
		err := r.failure()
		if err == nil {
			continue
		}
		if r.first && !r.delivered.Load() {
			return err
		}
		s.fail(r, "it has ended", err)
	}
	if len(gone) > 0 {
		s.list(gone)
	}
	return nil
}

// expire ends the handover of the sources whose time is over.
func (s *supervisor) expire() {
	var silent []string
	for _, entry := range s.plan.Load().Sources {
		if s.handover.awaited[entry.Name] {
			silent = append(silent, entry.Name)
		}
	}
	gone := s.handover.expire(time.Now())
	if len(gone) > 0 {
		s.log.Warn("removed sources lose their pods before the added ones could be read",
			"gone", strings.Join(gone, ","), "unread", strings.Join(silent, ","))
	}
	s.list(gone)
}

// incomplete reports whether a source has failed.
func (s *supervisor) incomplete() bool {
	for _, r := range s.running {
		if r.broken() {
			return true
		}
	}
	return false
}

// makeAll makes all readers, or none.
func (s *supervisor) makeAll(entries []sourceconfig.Source) ([]*reader, error) {
	var out []*reader
	for _, entry := range entries {
		r, err := makeReader(entry, s.build)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// begin runs a reader, or reports why it couldn't be made.
func (s *supervisor) begin(ctx context.Context, r *reader) {
	s.mu.Lock()
	s.running[r.entry.Name] = r
	s.mu.Unlock()
	if r.source == nil {
		s.fail(r, "it can't be read yet", r.err)
		return
	}
	ctx, r.stop = context.WithCancel(ctx)
	go func() {
		defer s.wakeUp()
		defer close(r.ended)
		out := func(set manifest.Set) {
			s.apply(set)
			r.delivered.Store(true)
			if set.Err == nil && !r.good.Swap(true) {
				s.forget(r.entry.Name)
				s.wakeUp()
			}
		}
		if err := r.run(ctx, out, s.follow); err != nil && ctx.Err() == nil {
			r.err = err
		}
	}()
}

// wakeUp schedules attend. It is safe for concurrent use.
func (s *supervisor) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// fail reports in the source's state why it isn't read.
func (s *supervisor) fail(r *reader, what string, err error) {
	s.complain(r.entry.Name, what, err)
	s.apply(manifest.Set{Source: r.entry.Name, ReadTime: time.Now(), Err: err})
}

// complain logs an error of a source, unless it was logged last and the source has given no good set since.
func (s *supervisor) complain(source, what string, err error) {
	if s.logged[source] != err.Error() {
		s.logged[source] = err.Error()
		s.log.Error("source failed; it is retried periodically", "source", source, "what", what, "error", err)
	}
}

// end stops readers, and returns when they have ended. One that doesn't end is abandoned, and its sets are ignored
// from now on.
func (s *supervisor) end(which func(name string) bool) {
	s.mu.Lock()
	var ending []*reader
	for name, r := range s.running {
		if which(name) {
			r.stop()
			ending = append(ending, r)
			delete(s.running, name)
		}
	}
	s.mu.Unlock()
	patience := time.NewTimer(s.endPatience)
	defer patience.Stop()
	late := false
	for _, r := range ending {
		if !late {
			select {
			case <-r.ended:
			case <-patience.C:
				late = true
			}
		}
		select {
		case <-r.ended:
		default:
			s.log.Error("source doesn't end; it is abandoned", "source", r.entry.Name, "after", s.endPatience)
		}
		r.silence()
	}
}

// stop ends all readers.
func (s *supervisor) stop() {
	s.end(func(string) bool { return true })
	s.expired.Stop()
}
