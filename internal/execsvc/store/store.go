package store

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/boltfile"
	"github.com/podstream/podstream/internal/execsvc/resize"
	"github.com/podstream/podstream/internal/execsvc/status"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

var (
	// ErrLocked is wrapped by errors of Open if another process has the store open.
	ErrLocked = boltfile.ErrLocked
	// ErrClosed is returned by SetEnd and Flush once Run has ended.
	ErrClosed = errors.New("the store is closed")
)

// Config says where the store is.
type Config struct {
	// Path is the file. Its directory exists; what was set aside stands beside it.
	Path string
	// Committed is called after each write with the cursor that is on disk now, if events were applied since the one before. It is
	// called from Run's goroutine and must not block. Nil: nobody is told.
	Committed func(*podconfigv1.Cursor)
	// Clock dates what is set aside, and is for the pauses after a failure. Nil means the real one.
	Clock clock.Clock
	// Logger is told when a store is set aside, when it can't be written, and when it can again. Nil discards.
	Logger *slog.Logger
}

// State is what a store held when it was opened. Pods and statuses are shared and must not be changed.
type State struct {
	// Cursor is where the pods stand. Nil: nothing was ever applied.
	Cursor *podconfigv1.Cursor
	// Pods are the desired pods, in no order, as client.WatchOptions wants them. Stale is never set.
	Pods []client.Pod
	// Statuses are the last statuses, by UID; Ends are the terminations under way; Allocations are the resources that pods were last
	// allocated. Any may be of pods that aren't desired.
	Statuses    map[types.UID]Status
	Ends        map[types.UID]End
	Allocations map[types.UID]resize.Allocation
}

// Status is a pod's last status.
type Status struct {
	Status *v1.PodStatus
	// Changed is when it became this. It is kept to the millisecond.
	Changed time.Time
}

// End is a termination that is under way: what it takes to go on with it after a restart.
type End struct {
	UID                     types.UID
	Namespace, Name, Source string
	// Grace is the grace period in seconds.
	Grace int64
	// Deadline is when the grace period ends of what was told to end at once. It is kept to the millisecond.
	Deadline time.Time
	// Told is, of the containers that have had their SIGTERM and ran on, by ID, when their end began, to the millisecond: their grace period
	// goes on over a restart. Of the others nobody knows whether they were told, and they have theirs anew. SetTold sets it.
	Told map[string]time.Time
	// Removed tells that the pod isn't desired any more.
	Removed bool
	// Failure is why the pod was ended, if it failed by that. Nil: it didn't.
	Failure *status.Failure
	// Object is the pod itself: one that was removed is in no other place. Nil: it isn't known.
	Object *v1.Pod
}

// Store is an open store. It is safe for concurrent use, but for Run.
type Store struct {
	cfg  Config
	wake chan struct{}

	// file is nil while there is none. One that can't be written or is damaged is held until a new one takes its place; damaged is why it
	// has to be set aside then. Only Run's goroutine uses them.
	file    *boltfile.File
	damaged error

	mu   sync.Mutex
	held held
	// What isn't on disk: everything, or what is at these places; and whether events were applied.
	whole   bool
	changed map[place]struct{}
	applied bool
	// next is the write that will have all that is there now. failure is set while writing fails; nobody waits then.
	next    *write
	failure error
}

// write is one that callers wait for. err is set before done is closed.
type write struct {
	done chan struct{}
	err  error
}

func newWrite() *write { return &write{done: make(chan struct{})} }

func (w *write) end(err error) {
	w.err = err
	close(w.done)
}

// Open reads the store and keeps others from it until Run has ended. If there is none, or it can't be used, the State is empty; if it
// can't be written, it is read nevertheless: Run makes good what is missing. An error (ErrLocked, say) means that nothing is known of
// what the store holds.
func Open(cfg Config) (*Store, State, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Committed == nil {
		cfg.Committed = func(*podconfigv1.Cursor) {}
	}
	s := &Store{cfg: cfg, wake: make(chan struct{}, 1), held: newHeld(), changed: map[place]struct{}{}, next: newWrite()}
	if err := s.load(); err != nil {
		return nil, State{}, fmt.Errorf("open the store %s: %w", cfg.Path, err)
	}
	return s, faulty(s.held.state()), nil
}

func (s *Store) load() error {
	err := s.read(boltfile.Options{})
	readOnly := errors.Is(err, boltfile.ErrUnwritable)
	if readOnly {
		err = s.read(boltfile.Options{ReadOnly: true})
	}
	switch {
	case err == nil:
		s.whole = s.whole || readOnly
	case errors.Is(err, fs.ErrNotExist):
		s.whole = true
	case boltfile.Unusable(err):
		s.whole, s.damaged = true, err
	default:
		if s.file != nil {
			_ = s.file.Close()
		}
		return err
	}
	return nil
}

// read opens the file and takes over what it holds, if all of that is good. If it isn't, the file stays open all the same, so that nobody
// else takes hold of it before a new one is in its place.
func (s *Store) read(opts boltfile.Options) error {
	var err error
	if s.file, err = boltfile.Open(s.cfg.Path, opts); err != nil {
		return err
	}
	return s.file.View(func(tx *bbolt.Tx) error {
		l, err := openLedger(tx)
		if err != nil {
			return err
		}
		h, err := l.load()
		if err != nil {
			return err
		}
		// All of it is written anew in place of what is outdated.
		s.held, s.whole = h, l.outdated
		return nil
	})
}
