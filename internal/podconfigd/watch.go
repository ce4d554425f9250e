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
	// settleTime is how long the configuration files must have been left alone before they are read: several that belong together
	// are changed one after the other.
	settleTime = 500 * time.Millisecond
	// pollTime is how often they are looked at whatever inotify says: it doesn't tell of files behind symbolic links.
	pollTime = 20 * time.Second
)

// configWatch calls for a look at the configuration files when they may have changed.
type configWatch struct {
	paths kubeletconfig.Paths
	// look has room for one call.
	look         chan struct{}
	settle, poll time.Duration
	log          *slog.Logger
}

func newConfigWatch(paths kubeletconfig.Paths, log *slog.Logger) *configWatch {
	return &configWatch{paths: paths, look: make(chan struct{}, 1), settle: settleTime, poll: pollTime, log: log}
}

// run watches until ctx ends. Without files it only waits.
func (w *configWatch) run(ctx context.Context) {
	if w.paths.Config == "" && w.paths.Dir == "" {
		<-ctx.Done()
		return
	}
	var events <-chan fsnotify.Event
	var problems <-chan error
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		w.log.Warn("the configuration isn't watched but looked at now and then", "every", w.poll, "err", err)
	} else {
		defer func() { _ = watcher.Close() }()
		events, problems = watcher.Events, watcher.Errors
	}
	poll := time.NewTicker(w.poll)
	defer poll.Stop()
	settled := time.NewTimer(0)
	defer settled.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-events:
			if w.concerns(e.Name) {
				settled.Reset(w.settle)
			}
			continue
		case <-problems:
			// Events were lost, or a watch: look for oneself.
			settled.Reset(w.settle)
			continue
		case <-settled.C:
		case <-poll.C:
		}
		if watcher != nil {
			w.addAll(watcher)
		}
		select {
		case w.look <- struct{}{}:
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
