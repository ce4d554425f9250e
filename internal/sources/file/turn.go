package file

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

const (
	// stuckAfter is how long the work on one path may take before the source can't be read. A system call on a file
	// system whose server doesn't answer takes any time, and can't be interrupted.
	stuckAfter = 15 * time.Second
	// endGrace is how long Run waits for the work on one path when ctx ends. The goroutine of a system call that
	// takes longer is left behind, and ends with that call.
	endGrace = 5 * time.Second
)

// turns are the parts of a Run that use the file system. They run in a goroutine of their own, so that Run always
// answers.
type turns struct {
	stuckAfter, endGrace time.Duration

	work chan func()
	// path is the path that is being worked on. Each step stores another pointer.
	path atomic.Pointer[string]
}

// at records that the work on a path begins.
func (t *turns) at(path string) { t.path.Store(&path) }

// begin starts the goroutine of the turns, and returns the function that ends it.
func (l *loop) begin() (end func()) {
	l.work = make(chan func())
	ended := make(chan struct{})
	l.at(l.Path)
	go func() {
		defer close(ended)
		for work := range l.work {
			work()
		}
		l.unwatch()
	}()
	return func() {
		close(l.work)
		grace := l.Clock.NewTimer(l.endGrace)
		defer grace.Stop()
		select {
		case <-ended:
		case <-grace.C():
			l.Logger.Error("The source ends while a file system doesn't answer", "file", *l.path.Load())
		}
	}
}

// turn runs work, and sends what it found. While the work is stuck, the set is an error: no change of the path can be
// noticed. It reports whether the source goes on; it doesn't once ctx has ended.
func (l *loop) turn(ctx context.Context, work func()) (goesOn bool) {
	done := make(chan struct{})
	l.work <- func() { defer close(done); work() }
	for {
		before := l.path.Load()
		timer := l.Clock.NewTimer(l.stuckAfter)
		select {
		case <-ctx.Done():
		case <-done:
		case <-timer.C():
		}
		timer.Stop()
		select {
		case <-ctx.Done():
			return false
		case <-done:
			if ctx.Err() != nil {
				// The work may have been interrupted: its result isn't complete.
				return false
			}
			l.emit()
			return true
		default:
		}
		if path := l.path.Load(); path == before {
			l.stuck(*path)
		}
	}
}

// stuck sends the error that the work on a path doesn't end.
func (l *loop) stuck(path string) {
	err := fmt.Errorf("read manifests: %s has not answered for %v; is its file system away? the source's pods stay", path, l.stuckAfter)
	if l.sentErr != err.Error() {
		l.Logger.Warn("Manifests can't be read; their pods stay", "error", err)
	}
	l.send(err, nil)
}
