package store

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/podstream/podstream/client/position"
	"github.com/podstream/podstream/internal/boltfile"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

var (
	// ErrUnwritable is wrapped by errors of Open, Commit and Replace if the disk is full, fails or may not be written
	// to. Earlier commits are kept.
	ErrUnwritable = boltfile.ErrUnwritable
	// ErrDamaged is wrapped by errors of Commit if the file is found to be damaged after it was opened. All further
	// commits fail with it, until Replace makes a new file.
	ErrDamaged = boltfile.ErrDamaged
	// ErrLocked is wrapped by errors of Open if another process has the store open.
	ErrLocked = boltfile.ErrLocked
	// ErrGone is wrapped by errors of Commit and Check if the file was removed or replaced. Close the store then, and
	// open it again.
	ErrGone = boltfile.ErrGone
	// ErrClosed is returned by Commit and Replace after Close.
	ErrClosed = errors.New("the store is closed")
)

// Config is the configuration of a Store.
type Config struct {
	// Path is the file. Its directory exists. Files that are set aside, and the new file while it is made, are beside
	// it.
	Path string
	// Tombstones is how many removed pods are kept. Zero means 8192, as in package history.
	Tombstones int
	// NoSync doesn't wait for the disk: a commit survives the end of the process, but not of the machine. For tests
	// and simulations.
	NoSync bool
	// Logger gets a line when a store is made or set aside. Nil discards.
	Logger *slog.Logger
	// Now dates the files that are set aside. Nil means time.Now.
	Now func() time.Time
}

// Contents is all that a store holds.
type Contents struct {
	// Instance is the instance of the revision numbers; a new store has a new one.
	Instance string
	// Number is the last revision, or zero if there was none. All removals after Horizon are among the Tombstones.
	Number, Horizon uint64
	// Pods are sorted by namespace, name and UID. Open sets Stale on each; Replace ignores it.
	Pods []*revision.Pod
	// Tombstones are the removed pods, in order of removal. They have reference and digests only.
	Tombstones []history.Tombstone
	// ReadySources has the revision at which each source was last ready, unless the source was removed since.
	ReadySources map[string]uint64
	// Positions are those of the sources after that revision.
	Positions position.Positions
}

// Store is an open store. It is safe for concurrent use.
type Store struct {
	cfg Config

	mu   sync.Mutex
	file *boltfile.File
	// broken is why the file can't be used any more, or nil.
	broken error
}

// Open opens the store, or makes it if there is none, and returns its contents. Other processes can't open it until
// Close. A file that is damaged, or that another version wrote, is set aside, and a new store replaces it. On an
// error there is no Store, and the Contents are those that could be read:
//   - ErrUnwritable with contents: the store is good, but can't be written.
//   - ErrUnwritable without: there was none or a damaged one, and no new one can be made.
//   - ErrLocked, or another error: the store's contents aren't known.
func Open(cfg Config) (*Store, *Contents, error) {
	if cfg.Tombstones == 0 {
		cfg.Tombstones = 8192
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Store{cfg: cfg}
	c, err := s.open()
	if err != nil {
		_ = s.release()
		return nil, c, fmt.Errorf("open the store %s: %w", cfg.Path, err)
	}
	return s, c, nil
}

// Commit writes revisions in one transaction, and returns once they are on disk. They follow the last committed one
// without gaps. On an error the store is unchanged, and the caller may try again. There is one exception: if the disk
// took everything and failed to confirm it, the revisions may be stored nevertheless; Replace settles that. After
// ErrGone the store is gone.
func (s *Store) Commit(revs []*revision.Revision) error {
	if len(revs) == 0 {
		return nil
	}
	var edits []edit
	for _, rev := range revs {
		more, err := editsOf(rev)
		if err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		edits = append(edits, more...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return fmt.Errorf("commit: %w", s.broken)
	}
	err := s.update(func(tx *bbolt.Tx) error {
		l, err := openLedger(tx)
		if err != nil {
			return err
		}
		for _, rev := range revs {
			if rev.Number != l.number+1 || rev.Instance != "" && rev.Instance != l.instance {
				return fmt.Errorf("revision %d of instance %q doesn't follow revision %d of %q",
					rev.Number, rev.Instance, l.number, l.instance)
			}
			l.number = rev.Number
			l.place(rev)
		}
		return l.apply(edits, s.cfg.Tombstones)
	})
	if err != nil {
		return fmt.Errorf("commit revisions %d to %d: %w", revs[0].Number, revs[len(revs)-1].Number, err)
	}
	return nil
}

// Check returns why the store can't be used any more, as far as that shows without reading it. The error wraps
// ErrGone if the file was removed or replaced.
func (s *Store) Check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return fmt.Errorf("check: %w", s.broken)
	}
	if err := s.file.Named(); err != nil {
		return fmt.Errorf("check: %w", err)
	}
	return nil
}

// Replace makes c the contents of the store, atomically: after commits failed, or in a store that was opened again
// after it couldn't be written. It writes a new file and renames it, so it also repairs a damaged store; the damaged
// file is set aside. On an error nothing that was committed is lost.
func (s *Store) Replace(c *Contents) error {
	edits, err := editsOfContents(c)
	if err != nil {
		return fmt.Errorf("replace: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(s.broken, ErrClosed) {
		return fmt.Errorf("replace: %w", s.broken)
	}
	h := head{instance: c.Instance, number: c.Number, horizon: c.Horizon, positions: encodePositions(c.Positions)}
	if err := s.create(h, edits, true); err != nil {
		return fmt.Errorf("replace the store %s: %w", s.cfg.Path, err)
	}
	return nil
}

// Close releases the file, which has everything that was committed.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(s.broken, ErrClosed) {
		return nil
	}
	err := s.release()
	s.broken = ErrClosed
	if err != nil {
		return fmt.Errorf("close the store %s: %w", s.cfg.Path, err)
	}
	return nil
}
