package file

import (
	"fmt"
	"os"

	"github.com/fsnotify/fsnotify"
)

// eventBuffer is how many events are read from the kernel in advance, so that those of one change are handled
// together.
const eventBuffer = 256

// watch reports changes in one directory, not recursively.
type watch struct {
	dir string
	// stamp is the directory that the watch was set on. dir may name another one now.
	stamp stamp
	// lost: the directory was removed or renamed, or the watch broke, so no more events will come.
	lost   bool
	events <-chan fsnotify.Event
	errors <-chan error
	close  func() error
}

// openWatch watches a directory by inotify. The caller closes the watch, which ends its goroutine.
func openWatch(dir string) (*watch, error) {
	// The directory is identified before the watch is set: if it is replaced in between, the two differ, which the
	// next comparison finds.
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	w, err := fsnotify.NewBufferedWatcher(eventBuffer)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", dir, err)
	}
	if err := w.Add(dir); err != nil {
		_ = w.Close()
		return nil, fmt.Errorf("watch %s: %w", dir, err)
	}
	return &watch{dir: dir, stamp: stampOf(info), events: w.Events, errors: w.Errors, close: w.Close}, nil
}

// watches reports whether events of the directory that dir names now still arrive. A nil watch watches nothing.
func (w *watch) watches(dir string, now stamp) bool {
	return w != nil && !w.lost && w.dir == dir && w.stamp.sameFile(now)
}
