package applied

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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

// check opens the store, if it isn't open, and checks that an open one still has its name.
func (s *Source) check() {
	s.disk.Lock()
	defer s.disk.Unlock()
	if s.file != nil {
		err := s.file.Named()
		if err == nil {
			return
		}
		s.log.Error("the store of applied manifests has lost its name; it is opened again", "error", err)
		s.release()
	}
	s.open()
}

// open opens the store, or records why it can't be used. The caller holds disk.
func (s *Source) open() {
	s.mu.Lock()
	before, accepted := s.docs, s.accepted
	s.mu.Unlock()
	file, docs, note, err := s.load(before, accepted)
	if err == nil {
		err = s.parse(before, docs)
		if err != nil {
			_ = file.Close()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		if s.err == nil || s.err.Error() != err.Error() {
			s.log.Error("the store of applied manifests can't be used; its pods stay, and no writes are taken; it is tried again",
				"error", err)
		}
		s.err = err
		return
	}
	if s.err != nil {
		s.log.Info("the store of applied manifests is used again", "documents", len(docs))
	}
	s.file, s.docs, s.err, s.accepted = file, docs, nil, false
	s.version++
	// While the source runs, the write that has stored it is still under way.
	if before == nil {
		s.note = note
	}
}

// load opens the store, or makes one. before are the documents in memory; nil: they aren't known.
func (s *Source) load(before documents, accepted bool) (file *boltfile.File, docs documents, note []byte, err error) {
	opts := boltfile.Options{NoSync: s.cfg.NoSync}
	if err := checkPlace(s.cfg.Dir); err != nil {
		return nil, nil, nil, err
	}
	file, docs, note, err = openStore(s.cfg.Dir, opts)
	path := filepath.Join(s.cfg.Dir, storeName)
	switch {
	case err == nil:
		return file, docs, note, nil
	case boltfile.Unusable(err) && (accepted || before != nil):
		if err := s.setAside(path, err, len(before)); err != nil {
			return nil, nil, nil, err
		}
	case boltfile.Unusable(err):
		return nil, nil, nil, &refusedError{fmt.Errorf("%s: %w", path, err)}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, nil, nil, err
	case before == nil && !accepted && s.cfg.Known():
		return nil, nil, nil, &refusedError{fmt.Errorf("%s doesn't exist, and podconfigd has pods of it", path)}
	}
	file, err = createStore(s.cfg.Dir, before, opts)
	if err == nil {
		s.log.Info("the store of applied manifests is new", "documents", len(before))
	}
	if before == nil {
		before = documents{}
	}
	return file, before, nil, err
}

// setAside renames a store that can't be used. documents is the number of those that the next store begins with.
func (s *Source) setAside(path string, reason error, documents int) error {
	aside, err := boltfile.SetAside(path, reason, s.cfg.Clock.Now())
	if err != nil {
		return err
	}
	s.log.Error("the store of applied manifests can't be used and was set aside; a new one takes its place",
		"reason", reason, "set_aside", aside, "documents", documents)
	if err := boltfile.PruneAside(path); err != nil {
		s.log.Warn("stores that were set aside long ago can't be removed", "error", err)
	}
	return nil
}

// parse gives the documents their origins. An unchanged document is that of before.
func (s *Source) parse(before, docs documents) error {
	for key, d := range docs {
		if old := before[key]; old != nil && old.Digest == d.Digest && old.Set == d.Set && old.Caller == d.Caller {
			docs[key] = old
			continue
		}
		if err := d.Parse(write.Options{Node: s.cfg.Node}); err != nil {
			return fmt.Errorf("%s: %w", d.Key, err)
		}
	}
	return nil
}

// release closes the file. The caller holds disk.
func (s *Source) release() {
	if s.file != nil {
		_ = s.file.Close()
		s.file = nil
	}
}

func (s *Source) close() {
	s.disk.Lock()
	defer s.disk.Unlock()
	s.release()
}

// refusedError: the store isn't used until an administrator accepts that.
type refusedError struct{ error }

func (e *refusedError) Error() string {
	return e.error.Error() + "; restore it, or accept an empty one: podctl sources accept " + write.Source
}

func (e *refusedError) Unwrap() error { return e.error }

// Accept is part of sources.Accepter: a store that can't be used is set aside, and an empty one takes its place.
func (s *Source) Accept() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if refused := (*refusedError)(nil); !errors.As(s.err, &refused) {
		return "", nil
	}
	s.accepted = true
	s.wake()
	return "the source starts with an empty store, and its pods are removed", nil
}

func (s *Source) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}
