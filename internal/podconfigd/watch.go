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
	// gatherTime is how long events are gathered before the files are checked, as events rarely come alone.
	gatherTime = 100 * time.Millisecond
	// settleTime is how long the configuration files must stay the same before they are used: several that belong
	// together are changed one after the other.
	settleTime = 500 * time.Millisecond
	// pollTime is the interval at which they are checked without events: inotify doesn't report changes behind
	// symbolic links, nor those of files that the configuration only names.
	pollTime = 20 * time.Second
	// restlessTime is how long they may change before it is logged that they aren't used meanwhile.
	restlessTime = 5 * time.Minute
)

// configWatch requests a check of the configuration files when they may have changed.
type configWatch struct {
	paths kubeletconfig.Paths
	// look gets a token after events, poll periodically. Each holds one.
	look, poll    chan struct{}
	gather, every time.Duration
	log           *slog.Logger
}

func newConfigWatch(paths kubeletconfig.Paths, every time.Duration, log *slog.Logger) *configWatch {
	return &configWatch{
		paths: paths, look: make(chan struct{}, 1), poll: make(chan struct{}, 1), gather: gatherTime, every: every, log: log,
	}
}

// run watches until ctx ends. Without configuration files there is only polling: flags may name files.
func (w *configWatch) run(ctx context.Context) {
	var events <-chan fsnotify.Event
	var problems <-chan error
	var watcher *fsnotify.Watcher
	if w.paths != (kubeletconfig.Paths{}) {
		var err error
		if watcher, err = fsnotify.NewWatcher(); err != nil {
			w.log.Warn("the configuration can't be watched; it is checked periodically", "every", w.every, "error", err)
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
			w.log.Debug("events of the configuration's files were lost", "error", err)
			// Events were lost, or a watch: check the files.
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

// concerns reports whether a path is one of the configuration's.
func (w *configWatch) concerns(path string) bool {
	// A mounted ConfigMap changes by a switch of this link beside its files.
	if filepath.Base(path) == "..data" || path == w.paths.Config {
		return true
	}
	return w.paths.Dir != "" && (path == w.paths.Dir || strings.HasPrefix(path, w.paths.Dir+"/"))
}

// addAll watches the current directories. The poll finds changes where no watch can be set.
func (w *configWatch) addAll(watcher *fsnotify.Watcher) {
	if w.paths.Config != "" {
		_ = watcher.Add(filepath.Dir(w.paths.Config))
	}
	if w.paths.Dir == "" {
		return
	}
	_ = filepath.WalkDir(w.paths.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // It doesn't exist, or not any more.
		}
		if entry.IsDir() || path == w.paths.Dir {
			_ = watcher.Add(path)
		}
		return nil
	})
}
