package applied

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/podstream/podstream/internal/boltfile"
	"github.com/podstream/podstream/internal/write"
)

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
