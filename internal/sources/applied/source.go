package applied

import (
	"context"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/boltfile"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/write"
)

// CheckFrequency is the interval at which the documents are handed over again, and a store that can't be used is tried
// again.
const CheckFrequency = 20 * time.Second

// publishTime is how long Write waits for the publication of its change.
const publishTime = 30 * time.Second

// Config configures a Source.
type Config struct {
	// Dir is the directory of the store. Its parent exists.
	Dir string
	// Node is the node's name.
	Node string
	// Known reports whether podconfigd has pods of the source, from before the restart. Nil: it has none.
	Known func() bool
	// Recovered gets the note of a write that was stored, and of which it isn't certain that write.Request.Published was
	// called: the process ended before. It is called when the change is published. Nil is not called.
	Recovered func(note []byte)
	// NoSync doesn't wait for the disk. For tests.
	NoSync bool
	// PublishTime is how long Write waits for the publication of its change. Zero: 30 s.
	PublishTime time.Duration
	// Clock is for the interval, and for the times of documents. Nil: the system's clock.
	Clock clock.WithTicker
	// Logger gets each change of the source's state. Nil: slog.Default().
	Logger *slog.Logger
}

// Source is the source "applied". Make it with New. Write and Documents may be called before, during and after Run.
type Source struct {
	cfg Config
	log *slog.Logger
	// writing has one place: the write that is under way.
	writing chan struct{}
	// changed wakes Run.
	changed chan struct{}

	disk sync.Mutex
	// file is nil while the store isn't open. disk guards it.
	file *boltfile.File
	// confirm, if set, is called after each change of the file, for tests.
	confirm func() error

	mu sync.Mutex
	// docs are the stored documents. Nil: not known yet.
	docs documents
	// err is why the store can't be used now. Nil: it can, or wasn't tried yet.
	err error
	// accepted is set once an administrator has accepted to start with an empty store.
	accepted bool
	// note is that of the last write before the start. Nil: there is none.
	note []byte
	// version counts the changes of docs. handed is the version that was taken last, and news is closed, and replaced, when
	// that changes.
	version, handed uint64
	news            chan struct{}
}

// New returns a Source, which opens its store when it runs.
func New(cfg Config) *Source {
	if cfg.Known == nil {
		cfg.Known = func() bool { return false }
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.PublishTime == 0 {
		cfg.PublishTime = publishTime
	}
	return &Source{
		cfg: cfg, log: cfg.Logger.With("source", write.Source, "store", filepath.Join(cfg.Dir, storeName)),
		writing: make(chan struct{}, 1), changed: make(chan struct{}, 1), news: make(chan struct{}),
	}
}

// Run is part of sources.Source.
func (s *Source) Run(ctx context.Context, out func(manifest.Set)) error {
	defer s.close()
	ticker := s.cfg.Clock.NewTicker(CheckFrequency)
	defer ticker.Stop()
	for {
		s.check()
		set, version := s.set()
		out(set)
		if set.Err == nil {
			s.hand(version)
			s.recover()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.changed:
		case <-ticker.C():
		}
	}
}

// set returns the documents as a set, with their version.
func (s *Source) set() (manifest.Set, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set := manifest.Set{Source: write.Source, ReadTime: s.cfg.Clock.Now(), Err: s.err}
	if s.err == nil {
		for _, key := range slices.SortedFunc(maps.Keys(s.docs), write.Key.Compare) {
			set.Origins = append(set.Origins, s.docs[key].Origin)
		}
	}
	return set, s.version
}

// recover passes on the note of a write that was stored before the start.
func (s *Source) recover() {
	s.mu.Lock()
	note := s.note
	s.note = nil
	s.mu.Unlock()
	if note == nil {
		return
	}
	if s.cfg.Recovered != nil {
		s.cfg.Recovered(note)
	}
	s.settle()
}

// settle removes the stored note. If it can't, the next start passes the note on once more.
func (s *Source) settle() {
	s.disk.Lock()
	defer s.disk.Unlock()
	if s.file == nil {
		return
	}
	if err := settle(s.file); err != nil {
		s.log.Warn("the note of a write can't be removed; the write is logged again at the next start", "error", err)
	}
}

// hand records that a version was taken.
func (s *Source) hand(version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handed = version
	close(s.news)
	s.news = make(chan struct{})
}

func (s *Source) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}
