package file

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// atomicWriterLink is the symbolic link that the kubelet switches to change all files of a ConfigMap volume at once.
// The files themselves are links through it, and have no events of their own.
const atomicWriterLink = "..data"

// event handles one event of the watched directory.
func (l *loop) event(ctx context.Context, ev fsnotify.Event, now time.Time) {
	renamed := l.renamed
	l.renamed = ""
	if filepath.Clean(ev.Name) == l.watch.dir {
		if ev.Has(fsnotify.Remove) || ev.Has(fsnotify.Rename) {
			l.watch.lost = true
		}
		// The cause is over by then: a directory that is replaced by another one is missing for a moment only.
		l.relistWithin(l.QuietPeriod, now)
		return
	}
	name := filepath.Base(ev.Name)
	path := filepath.Join(l.watch.dir, name)
	if ev.Has(fsnotify.Rename) {
		l.renamed = path
	}
	switch {
	case l.err != nil:
		if path == l.Path {
			l.relistWithin(l.QuietPeriod, now)
		}
	case l.root.single && path != l.Path:
	case !l.root.single && hidden(name):
		if name == atomicWriterLink {
			l.relistWithin(0, now)
		}
	case ev.Has(fsnotify.Create):
		l.create(ctx, path, renamed, now)
	case ev.Has(fsnotify.Remove), ev.Has(fsnotify.Rename), l.ignore(path) == "":
		l.await(path, now)
	}
}

// create handles a new name. renamed is the name that the event directly before removed, or empty.
func (l *loop) create(ctx context.Context, path, renamed string, now time.Time) {
	why := created
	if renamed != "" {
		why = createdAfterRename
	}
	isManifest := l.ignore(path) == ""
	ready := isManifest && l.look(ctx, path, &sighting{occasion: why}, now) == taken
	if ready {
		delete(l.waits, path)
		l.wakeAt = now // Another file may have waited for this one.
	} else {
		l.await(path, now)
		if isManifest {
			w := l.waits[path]
			w.unwritten = true
			l.wake(w, now.Add(eventLag), now)
		}
	}
	old := l.waits[renamed]
	switch {
	case old == nil, renamed == path:
		// A name that is taken again at once has no new name. Were it its own, it would wait for itself.
	case ready:
		l.wake(old, now, now)
	default:
		old.newName = path
	}
}

// relistWithin schedules a listing after d at most.
func (l *loop) relistWithin(d time.Duration, now time.Time) {
	if at := now.Add(d); at.Before(l.relistAt) {
		l.relistAt = at
	}
}

// events and errors block forever while there is no watch.
func (l *loop) events() <-chan fsnotify.Event {
	if l.watch == nil {
		return nil
	}
	return l.watch.events
}

func (l *loop) errors() <-chan error {
	if l.watch == nil {
		return nil
	}
	return l.watch.errors
}

// watchFailed handles an error of the watch. Events were or will be lost; a listing compensates.
func (l *loop) watchFailed(err error, ok bool) {
	now := l.Clock.Now()
	if ok && errors.Is(err, fsnotify.ErrEventOverflow) {
		l.Logger.Warn("Too many changes at once, some events were lost; reading the directory again")
		l.relistAt = now
		return
	}
	if !ok {
		err = fsnotify.ErrClosed
	}
	l.Logger.Warn("The watch failed; setting it again", "error", err)
	l.watch.lost = true
	// Not at once, so that an error that comes back each time doesn't cause a busy loop.
	l.relistWithin(recheckInterval, now)
	l.unwatch()
}

// follow sets a watch on the root.
func (l *loop) follow(r root, now time.Time) {
	if l.watch.watches(r.dir, r.stamp) {
		return
	}
	l.unwatch()
	w, err := l.open(r.dir)
	if err != nil {
		l.relistWithin(pollInterval, now)
		if !l.polling {
			l.polling = true
			l.Logger.Warn("No inotify watch; changes are found by comparing all files",
				"error", err, "every", min(pollInterval, l.CheckFrequency))
		}
		return
	}
	if l.polling {
		l.polling = false
		l.Logger.Info("Watching for changes again")
	}
	l.watch = w
}

// followParent watches the parent of a path that can't be read. Without a watch the path is found a second later.
func (l *loop) followParent() {
	parent := filepath.Dir(l.Path)
	r, err := locate(parent)
	if err == nil && l.watch.watches(parent, r.stamp) {
		return
	}
	l.unwatch()
	if err != nil {
		return
	}
	if w, err := l.open(parent); err == nil {
		l.watch = w
	}
}

// unwatch ends the watch, if there is one, and discards its events: a listing follows.
func (l *loop) unwatch() {
	if l.watch == nil {
		return
	}
	_ = l.watch.close()
	l.watch = nil
	l.renamed = ""
}
