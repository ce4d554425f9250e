package podconfigd

import (
	"context"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/podstream/podstream/internal/kubeletconfig"
)

const (
	// gatherTime is how long events are gathered before the files are looked at: few come alone.
	gatherTime = 100 * time.Millisecond
	// settleTime is how long the configuration files must stay the same before they are used: several that belong together are
	// changed one after the other.
	settleTime = 500 * time.Millisecond
	// pollTime is how often they are looked at whatever inotify says: it doesn't tell of files behind symbolic links, nor of those
	// that the configuration only names.
	pollTime = 20 * time.Second
	// restlessTime is how long they may change before somebody is told that they aren't used meanwhile.
	restlessTime = 5 * time.Minute
)

// configWatch calls for a look at the configuration files when they may have changed.
type configWatch struct {
	paths kubeletconfig.Paths
	// look is called when there were events, poll now and then. Each has room for one call.
	look, poll    chan struct{}
	gather, every time.Duration
	log           *slog.Logger
}

func newConfigWatch(paths kubeletconfig.Paths, every time.Duration, log *slog.Logger) *configWatch {
	return &configWatch{
		paths: paths, look: make(chan struct{}, 1), poll: make(chan struct{}, 1), gather: gatherTime, every: every, log: log,
	}
}

// run watches until ctx ends. Without files of its own the configuration is only polled: flags may name some.
func (w *configWatch) run(ctx context.Context) {
	var events <-chan fsnotify.Event
	var problems <-chan error
	var watcher *fsnotify.Watcher
	if w.paths != (kubeletconfig.Paths{}) {
		var err error
		if watcher, err = fsnotify.NewWatcher(); err != nil {
			w.log.Warn("the configuration isn't watched but looked at now and then", "every", w.every, "err", err)
		} else {
			defer func() { _ = watcher.Close() }()
			events, problems = watcher.Events, watcher.Errors
		}
	}
	poll := time.NewTicker(w.every)
	defer poll.Stop()
	gathered := time.NewTimer(0)
	defer gathered.Stop()
	for {
		call := w.look
		select {
		case <-ctx.Done():
			return
		case e := <-events:
			if w.concerns(e.Name) {
				gathered.Reset(w.gather)
			}
			continue
		case err := <-problems:
			w.log.Debug("events of the configuration's files were lost", "err", err)
			// Events were lost, or a watch: look for oneself.
			gathered.Reset(w.gather)
			continue
		case <-gathered.C:
		case <-poll.C:
			call = w.poll
		}
		if watcher != nil {
			w.addAll(watcher)
		}
		select {
		case call <- struct{}{}:
		default:
		}
	}
}

// concerns tells whether a path is one of the configuration's.
func (w *configWatch) concerns(path string) bool {
	// A mounted ConfigMap changes by a swap of this link beside its files.
	if filepath.Base(path) == "..data" || path == w.paths.Config {
		return true
	}
	return w.paths.Dir != "" && (path == w.paths.Dir || strings.HasPrefix(path, w.paths.Dir+"/"))
}

// addAll watches the directories that there are now. What can't be watched is found by the poll.
func (w *configWatch) addAll(watcher *fsnotify.Watcher) {
	if w.paths.Config != "" {
		_ = watcher.Add(filepath.Dir(w.paths.Config))
	}
	if w.paths.Dir == "" {
		return
	}
	_ = filepath.WalkDir(w.paths.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // It isn't there, or not any more.
		}
		if entry.IsDir() || path == w.paths.Dir {
			_ = watcher.Add(path)
		}
		return nil
	})
}
