package file

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/manifest"
)

const (
	// pollInterval is the longest time between two listings while there is no inotify watch.
	pollInterval = 5 * time.Second
	// recheckInterval is the time between two looks at a path that can't be read, or at a file whose writer takes long.
	recheckInterval = time.Second
	// maxBatch bounds how many events go into one Set, so that a flood of them doesn't hold back what was read.
	maxBatch = 256
)

// Config configures a Source.
type Config struct {
	// Name is the source's name: "file" or "file:NAME". Empty: "file".
	Name string
	// Path is a directory of manifests or a single manifest. It is part of the pods' UIDs, so it should be absolute.
	Path string
	// Node is the name of the node that the pods are for.
	Node string
	// Strict refuses manifests with unknown fields.
	Strict bool
	// CheckFrequency is how often all files are compared with what was read of them. Zero: 20 s.
	CheckFrequency time.Duration
	// QuietPeriod is how long a file must have been left alone before it is read, if it wasn't renamed into place, and how
	// long a file must have been missing before it is gone. Zero: 100 ms.
	QuietPeriod time.Duration
	// Clock must show the time of the system, as it is compared with that of files. Nil: the system's clock.
	Clock clock.WithTicker
	// Logger is told each change of a file's findings and of the path's state. Nil: slog.Default().
	Logger *slog.Logger
}

// Source reads one path. Make it with New.
type Source struct {
	cfg Config
	// open sets a watch, and writersOf tells of a file's writers; tests put their own here.
	open      func(dir string) (*watch, error)
	writersOf func(*os.File) writers
}

// New makes a Source, and reads nothing yet.
func New(cfg Config) *Source {
	if cfg.Name == "" {
		cfg.Name = "file"
	}
	if cfg.CheckFrequency <= 0 {
		cfg.CheckFrequency = 20 * time.Second
	}
	if cfg.QuietPeriod <= 0 {
		cfg.QuietPeriod = 100 * time.Millisecond
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Path != "" {
		cfg.Path = filepath.Clean(cfg.Path)
	}
	cfg.Logger = cfg.Logger.With("source", cfg.Name, "path", cfg.Path)
	return &Source{cfg: cfg, open: openWatch, writersOf: writersOf}
}

// Run reads the path until ctx ends, and then returns nil. It calls out, always from the same goroutine, with the full set
// at the first reading and after each change, also if only a finding or the error changed. Equal readings are silent, but for
// one Set a CheckFrequency that tells when the path was last read; it has the same Origins, as pointers. While out runs nothing
// is read; what changes meanwhile goes into the next Set. The only error is a Config without Path.
func (s *Source) Run(ctx context.Context, out func(manifest.Set)) error {
	if s.cfg.Path == "" {
		return errors.New("file source " + s.cfg.Name + ": no path")
	}
	l := &loop{
		Config:    s.cfg,
		open:      s.open,
		writersOf: s.writersOf,
		out:       out,
		waits:     map[string]*wait{},
	}
	defer l.unwatch()
	l.relist(l.Clock.Now())
	l.emit()
	for {
		timer := l.Clock.NewTimer(l.next().Sub(l.Clock.Now()))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case ev, ok := <-l.events():
			l.batch(ev, ok)
		case err, ok := <-l.errors():
			l.watchFailed(err, ok)
		case <-timer.C():
		}
		timer.Stop()
		now := l.Clock.Now()
		if !l.relistAt.After(now) {
			l.relist(now)
		}
		l.lookAgain(now)
		l.emit()
	}
}

// loop is the state of one Run, all of it used by one goroutine.
type loop struct {
	Config
	open      func(dir string) (*watch, error)
	writersOf func(*os.File) writers
	out       func(manifest.Set)

	// watch is nil while there is none. polling: that was logged.
	watch   *watch
	polling bool
	// renamed is the path that the last event said was renamed away. Empty if it said something else.
	renamed string

	// root is what the path was when it was last listed, and entries what was in it. Both stay while it can't be read.
	root    root
	entries entries
	// ignored is how many of the entries are.
	ignored int
	// listed: the path was read at least once. err: why it can't be now; returning: it seems that it can again.
	listed    bool
	err       error
	returning bool
	relistAt  time.Time

	// waits holds the files that are to be looked at later; wakeAt is not after the first of them.
	waits  map[string]*wait
	wakeAt time.Time

	// What was last handed over.
	sent        bool
	sentAt      time.Time
	sentErr     string
	sentOrigins []*manifest.Origin
}

// next is when there is something to do, if no event comes before.
func (l *loop) next() time.Time {
	if len(l.waits) > 0 && l.wakeAt.Before(l.relistAt) {
		return l.wakeAt
	}
	return l.relistAt
}

// batch takes the event, and with it all those that are there already.
func (l *loop) batch(ev fsnotify.Event, ok bool) {
	now := l.Clock.Now()
	for n := 1; ; n++ {
		if !ok {
			l.watchFailed(fsnotify.ErrClosed, true)
			return
		}
		l.event(ev, now)
		if n == maxBatch {
			return
		}
		select {
		case ev, ok = <-l.events():
		default:
			return
		}
	}
}

// emit hands the set over if it differs from the one before, and once a CheckFrequency in any case, which tells when the path
// was last read.
func (l *loop) emit() {
	set := manifest.Set{Source: l.Name, Err: l.err}
	var errText string
	if l.err != nil {
		errText = l.err.Error()
	} else {
		set.Origins = l.entries.origins()
	}
	set.ReadTime = l.Clock.Now()
	same := l.sent && errText == l.sentErr && slices.Equal(set.Origins, l.sentOrigins)
	if same && set.ReadTime.Sub(l.sentAt) < l.CheckFrequency {
		return
	}
	l.sent, l.sentAt, l.sentErr, l.sentOrigins = true, set.ReadTime, errText, set.Origins
	l.out(set)
}
