package containerlog

import (
	"context"
	"os"
	"time"
)

// poll is the period of checks of a log without change notifications.
const poll = time.Second

// followed is a log that is followed.
type followed struct {
	*file
	// changes is nil if there are no notifications: the log is then polled.
	changes *changes
}

// follow reads a log as it grows, and its successor when it is rotated.
func (r *reading) follow(f **file) error {
	log := &followed{file: *f}
	defer func() {
		r.unwatch(log)
		*f = log.file
	}()
	r.watch(log)
	for {
		if err := r.all(log.file, false); err != nil {
			return err
		}
		running, err := r.running(log.file)
		if err != nil {
			return err
		}
		if !running {
			return r.rest(log)
		}
		written, err := r.wait(log.changes)
		if err == nil && !written {
			err = r.rotate(log)
		}
		if err != nil {
			return err
		}
	}
}

// rest reads the lines up to the container's end.
func (r *reading) rest(log *followed) error {
	if err := r.rotate(log); err != nil {
		return err
	}
	return r.all(log.file, true)
}

// wait waits for a change of the log. It reports whether the log has only grown.
func (r *reading) wait(c *changes) (written bool, err error) {
	timer := time.NewTimer(poll)
	defer timer.Stop()
	var pending <-chan struct{}
	if c != nil {
		pending = c.pending
	}
	select {
	case <-r.ctx.Done():
		return false, context.Cause(r.ctx)
	case <-pending:
		return !c.more.Swap(false), nil
	case <-timer.C:
		return false, nil
	}
}

func sameFile(a, b *os.File) (bool, error) {
	ai, err := a.Stat()
	if err != nil {
		return false, err
	}
	bi, err := b.Stat()
	return err == nil && os.SameFile(ai, bi), err
}

// watch subscribes to the log's changes, if the kernel has a watch left.
func (r *reading) watch(log *followed) {
	if r.Watch == nil {
		return
	}
	if c, err := r.Watch.add(log.file); err == nil {
		log.changes = c
	}
}

func (r *reading) unwatch(log *followed) {
	if log.changes != nil {
		r.Watch.remove(log.changes)
		log.changes = nil
	}
}
