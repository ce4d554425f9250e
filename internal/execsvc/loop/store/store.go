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
	"github.com/podstream/podstream/internal/execsvc/decide/resize"
	"github.com/podstream/podstream/internal/execsvc/decide/status"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

var (
	// ErrLocked is wrapped by an error of Open if another process has the store open.
	ErrLocked = boltfile.ErrLocked
	// ErrClosed is returned by SetEnd, SetReplaced, SetRestart and Flush once Run has ended.
	ErrClosed = errors.New("the store is closed")
)

// Config configures a Store.
type Config struct {
	// Path is the file. Its directory exists; files that are set aside stay in it.
	Path string
	// Committed is called after each write with the cursor that is on disk, if events were applied since the last
	// write. It is called from Run's goroutine and must not block. May be nil.
	Committed func(*podconfigv1.Cursor)
	// Clock dates files that are set aside, and is for the pauses after a failure. Nil means the real one.
	Clock clock.Clock
	// Logger gets a line when a store is set aside, when it can't be written, and when it can be written again. Nil
	// discards.
	Logger *slog.Logger
}

// State is the content of a store when it was opened. Pods and statuses are shared and must not be changed.
type State struct {
	// Cursor is the cursor of the pods. Nil: nothing was ever applied.
	Cursor *podconfigv1.Cursor
	// Pods are the desired pods, in no order, as client.WatchOptions wants them. Stale is never set.
	Pods []client.Pod
	// Statuses are the last statuses, by UID; Ends are the current terminations; Allocations are the resources that
	// pods were last allocated. The pods of any of them may not be desired any more.
	Statuses    map[types.UID]Status
	Ends        map[types.UID]End
	Allocations map[types.UID]resize.Allocation
	// Removals are the times of removals of running pods that SetRemovals has stored last, in milliseconds.
	Removals []time.Time
}

// Status is a pod's last status.
type Status struct {
	Status *v1.PodStatus
	// Changed is the time of the last change, in milliseconds.
	Changed time.Time
	// Replaced are the IDs of containers that were stopped, or were about to be, so that successors start. SetReplaced
	// sets it.
	Replaced []string
	// Restart is an operator's request that isn't complete. Nil: there is none. SetRestart sets it.
	Restart *Restart
}

// End is a current termination: everything that is needed to continue it after a restart.
type End struct {
	UID                     types.UID
	Namespace, Name, Source string
	// Grace is the grace period in seconds.
	Grace int64
	// Deadline is the end of the grace period of a container that got its SIGTERM at once, in milliseconds.
	Deadline time.Time
	// Stopping maps the IDs of containers that got their SIGTERM and still ran to the beginning of their grace period,
	// in milliseconds. It continues after a restart. For other containers the grace period begins again, because it is
	// unknown whether they got a SIGTERM. SetStopping sets it.
	Stopping map[string]time.Time
	// Removed is set if the pod is not desired any more.
	Removed bool
	// Failure is why the pod was ended, if that makes it Failed. Nil: it doesn't.
	Failure *status.Failure
	// Object is the pod. For a removed pod there is no other copy. Nil: it is unknown.
	Object *v1.Pod
}

// Store is an open store. It is safe for concurrent use, except for Run.
type Store struct {
	cfg  Config
	wake chan struct{}

	// file is nil while there is none. A file that can't be written or is damaged stays open until a new one replaces
	// it; damaged is why it has to be set aside then. Only Run's goroutine uses them.
	file    *boltfile.File
	damaged error

	mu   sync.Mutex
	held held
	// The changes that aren't on disk: the whole state, or the values at these places; and whether events were
	// applied.
	whole   bool
	changed map[place]struct{}
	applied bool
	// next is the write that will have all current changes. failure is set while writing fails; no caller waits then.
	next    *write
	failure error
}

// write is a write that callers wait for. err is set before done is closed.
type write struct {
	done chan struct{}
	err  error
}

func newWrite() *write { return &write{done: make(chan struct{})} }

func (w *write) end(err error) {
	w.err = err
	close(w.done)
}

// Open reads the store and locks it until Run has ended. If there is none, or it can't be used, the State is empty. If
// it can't be written, it is read nevertheless, and Run writes it later. After an error, such as ErrLocked, the
// content of the store is unknown.
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

// read opens the file and reads its content, if all records are valid. If they are not, the file stays open and locked
// until a new one replaces it.
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
		// An outdated file is replaced as a whole.
		s.held, s.whole = h, l.outdated
		return nil
	})
}
