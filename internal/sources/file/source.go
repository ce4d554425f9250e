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
	// recheckInterval is the time between two checks of a path that can't be read, or of a file whose writer takes
	// long.
	recheckInterval = time.Second
	// maxBatch bounds the events that go into one Set, so that a flood of events doesn't delay it.
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
	// CheckFrequency is the interval at which all files are compared with what was read of them. Zero: 20 s.
	CheckFrequency time.Duration
	// QuietPeriod is how long a file must be unchanged before it is read, if it wasn't renamed into place, and how
	// long it must be missing before it is gone. Zero: 100 ms.
	QuietPeriod time.Duration
	// Known is called once, at the start of Run, and returns the origins of the known pods of this source. Nil: there
	// are none.
	Known func() []string
	// PlaceFile is the file that stores over a restart on which mount the directory was. Empty: it isn't stored.
	PlaceFile string
	// Clock must show the time of the system, as it is compared with the times of files. Nil: the system's clock.
	Clock clock.WithTicker
	// Logger gets each change of a file's findings and of the path's state. Nil: slog.Default().
	Logger *slog.Logger
}

// Source reads one path. Make it with New.
type Source struct {
	cfg Config
	// open sets a watch, and writersOf finds a file's writers; tests replace them.
	open      func(dir string) (*watch, error)
	writersOf func(*os.File) writers
	// stuckAfter and endGrace default to the constants.
	stuckAfter, endGrace time.Duration
}

// New returns a Source. It reads nothing yet.
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
	if cfg.Known == nil {
		cfg.Known = func() []string { return nil }
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
	return &Source{cfg: cfg, open: openWatch, writersOf: writersOf, stuckAfter: stuckAfter, endGrace: endGrace}
}

// Run reads the path until ctx ends, and then returns nil. It calls out, always from the same goroutine, with the
// full set at the first reading and after each change, even of a finding or the error only. Equal readings cause no
// call, except one Set every CheckFrequency that shows when the path was last read; it has the same Origins, as
// pointers. While out runs nothing is read; later changes go into the next Set. It returns an error only for a Config
// without Path.
func (s *Source) Run(ctx context.Context, out func(manifest.Set)) error {
	if s.cfg.Path == "" {
		return errors.New("file source " + s.cfg.Name + ": no path")
	}
	l := &loop{
		Config:    s.cfg,
		turns:     turns{stuckAfter: s.stuckAfter, endGrace: s.endGrace},
		open:      s.open,
		writersOf: s.writersOf,
		out:       out,
		waits:     map[string]*wait{},
	}
	l.before = l.begun()
	defer l.begin()()
	goesOn := l.turn(ctx, func() { l.relist(ctx, l.Clock.Now()) })
	for goesOn {
		work := func() {}
		timer := l.Clock.NewTimer(l.next().Sub(l.Clock.Now()))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case ev, ok := <-l.events():
			work = func() { l.batch(ctx, ev, ok) }
		case err, ok := <-l.errors():
			work = func() { l.watchFailed(err, ok) }
		case <-timer.C():
		}
		timer.Stop()
		goesOn = l.turn(ctx, func() {
			work()
			now := l.Clock.Now()
			if !l.relistAt.After(now) {
				l.relist(ctx, now)
			}
			l.lookAgain(ctx, now)
		})
	}
	return nil
}

// loop is the state of one Run. During a turn only the goroutine of the turns uses it, between two turns only Run's.
// Only Run's goroutine uses the fields of emit.
type loop struct {
	Config
	turns
	open      func(dir string) (*watch, error)
	writersOf func(*os.File) writers
	out       func(manifest.Set)

	// watch is nil while there is none. polling: that was logged.
	watch   *watch
	polling bool
	// renamed is the path that the last event removed. Empty if it was another event.
	renamed string

	// before is what is known of the path from before this Run.
	before before

	// root is what the path was when it was last listed, and entries its files. Both stay while it can't be read.
	root    root
	entries entries
	// ignored counts the ignored entries.
	ignored int
	// listed: the path was read at least once. err: why it can't be read now. returning: it can probably be read
	// again.
	listed    bool
	err       error
	returning bool
	relistAt  time.Time

	// waits has the files to check later; wakeAt is no later than the first of them.
	waits  map[string]*wait
	wakeAt time.Time

	// What was last sent.
	sent        bool
	sentAt      time.Time
	sentErr     string
	sentOrigins []*manifest.Origin
}

// next is the time of the next work, if no event comes before.
func (l *loop) next() time.Time {
	if len(l.waits) > 0 && l.wakeAt.Before(l.relistAt) {
		return l.wakeAt
	}
	return l.relistAt
}

// batch handles the event, and all that have arrived after it.
func (l *loop) batch(ctx context.Context, ev fsnotify.Event, ok bool) {
	now := l.Clock.Now()
	for n := 1; ; n++ {
		if !ok {
			l.watchFailed(fsnotify.ErrClosed, true)
			return
		}
		l.event(ctx, ev, now)
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

// emit sends the result of the last turn.
func (l *loop) emit() {
	if l.err != nil {
		l.send(l.err, nil)
	} else {
		l.send(nil, l.entries.origins())
	}
}

// send sends a set if it differs from the previous one, and once every CheckFrequency in any case, to show when the
// path was last read.
func (l *loop) send(err error, origins []*manifest.Origin) {
	set := manifest.Set{Source: l.Name, Err: err, Origins: origins, ReadTime: l.Clock.Now()}
	var errText string
	if err != nil {
		errText = err.Error()
	}
	same := l.sent && errText == l.sentErr && slices.Equal(origins, l.sentOrigins)
	if same && set.ReadTime.Sub(l.sentAt) < l.CheckFrequency {
		return
	}
	l.sent, l.sentAt, l.sentErr, l.sentOrigins = true, set.ReadTime, errText, origins
	l.out(set)
}
