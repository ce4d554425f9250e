package podexecapi

import (
	"io"
	"sync"
	"time"
)

// lingerTime is the silence of the pod after which the end of the caller's data is passed on to the runtime: containerd
// ends the whole connection a second later, so that an answer that is still on its way would be lost.
const lingerTime = 5 * time.Second

// lingering ends the caller's direction of a connection after a silence of the pod.
type lingering struct {
	writer *io.PipeWriter
	time   time.Duration

	mu sync.Mutex
	// timer is set from the end of the caller's data.
	timer *time.Timer
	// over is set from the end of the pod's data: there is nothing to wait for.
	over bool
}

// start begins the wait, at the end of the caller's data.
func (l *lingering) start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.over:
		_ = l.writer.Close()
	case l.timer == nil:
		l.timer = time.AfterFunc(l.time, func() { _ = l.writer.Close() })
	}
}

// progress restarts the wait.
func (l *lingering) progress() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Reset(l.time)
	}
}

// now ends the wait, at the end of the pod's data.
func (l *lingering) now() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	if l.timer != nil {
		_ = l.writer.Close()
	}
}

func (l *lingering) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
}
