package containerlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// logEvents are the inotify events of a log: it was written to, its file has lost its name, and its writer has closed it.
const logEvents = unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_MOVE_SELF | unix.IN_DELETE_SELF | unix.IN_CLOSE_WRITE

// Watch notifies any number of readers of followed logs. All share one inotify instance, because the kernel allows a
// user few of them. It has one goroutine while there is a reader. No reader waits for another one. The zero value is
// ready for use.
type Watch struct {
	mu sync.Mutex
	// queue is nil while no log is watched; fd is its descriptor.
	queue *os.File
	fd    int
	// readers are by watch descriptor; a file has one, whatever the number of readers.
	readers map[int32]map[*changes]bool
	// stopped is closed when the goroutine has ended.
	stopped chan struct{}
}

// changes notifies one reader. It holds at most one notification, however late the reader is.
type changes struct {
	pending chan struct{}
	// more is set if the log has done more than grow.
	more atomic.Bool
	// watched is the watch descriptor.
	watched int32
}

func (c *changes) notify(more bool) {
	if more {
		c.more.Store(true)
	}
	select {
	case c.pending <- struct{}{}:
	default:
	}
}

// add subscribes to changes of the open file, whatever its name is by now. Without an error the caller calls remove.
func (w *Watch) add(f *file) (*changes, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue == nil {
		if err := w.start(); err != nil {
			return nil, err
		}
	}
	at, err := unix.InotifyAddWatch(w.fd, "/proc/self/fd/"+strconv.Itoa(int(f.Fd())), logEvents)
	if err != nil {
		w.stopUnused()
		return nil, fmt.Errorf("watch the log: %w", err)
	}
	c := &changes{pending: make(chan struct{}, 1), watched: int32(at)} //nolint:gosec // Watch descriptors are 32-bit.
	if w.readers[c.watched] == nil {
		w.readers[c.watched] = map[*changes]bool{}
	}
	w.readers[c.watched][c] = true
	return c, nil
}

// remove ends the subscription of add.
func (w *Watch) remove(c *changes) {
	w.mu.Lock()
	readers := w.readers[c.watched]
	delete(readers, c)
	if readers != nil && len(readers) == 0 {
		delete(w.readers, c.watched)
		//nolint:gosec // It came from the kernel. The error is that the file is gone, and the watch with it.
		_, _ = unix.InotifyRmWatch(w.fd, uint32(c.watched))
	}
	stopped := w.stopUnused()
	w.mu.Unlock()
	if stopped != nil {
		<-stopped
	}
}

// start creates the instance and its goroutine. The caller holds mu.
func (w *Watch) start() error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return fmt.Errorf("watch logs: %w", err)
	}
	queue, stopped := os.NewFile(uintptr(fd), "inotify"), make(chan struct{})
	w.queue, w.fd, w.stopped, w.readers = queue, fd, stopped, map[int32]map[*changes]bool{}
	go func() {
		defer close(stopped)
		w.run(queue)
	}()
	return nil
}

// stopUnused closes the instance if it has no reader, and returns a channel that is closed when its goroutine has
// ended. The caller holds mu.
func (w *Watch) stopUnused() <-chan struct{} {
	if w.queue == nil || len(w.readers) > 0 {
		return nil
	}
	_ = w.queue.Close()
	w.queue = nil
	return w.stopped
}

// run passes events to readers until the queue is closed.
func (w *Watch) run(queue *os.File) {
	buffer := make([]byte, 16<<10)
	for {
		n, err := queue.Read(buffer)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return
		}
		w.dispatch(queue, buffer[:n])
	}
}

// dispatch passes on events in the kernel's format: the watch descriptor, the mask, a cookie, and the length of a name.
func (w *Watch) dispatch(queue *os.File, events []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue != queue {
		return
	}
	for len(events) >= unix.SizeofInotifyEvent {
		at := int32(binary.NativeEndian.Uint32(events)) //nolint:gosec // Watch descriptors are 32-bit.
		what, name := binary.NativeEndian.Uint32(events[4:]), binary.NativeEndian.Uint32(events[12:])
		events = events[min(unix.SizeofInotifyEvent+int(name), len(events)):]
		if what&unix.IN_Q_OVERFLOW != 0 {
			w.notifyAll()
			continue
		}
		for c := range w.readers[at] {
			c.notify(what != unix.IN_MODIFY)
		}
		if what&unix.IN_IGNORED != 0 {
			delete(w.readers, at)
		}
	}
}

// notifyAll notifies all readers: events were lost.
func (w *Watch) notifyAll() {
	for _, readers := range w.readers {
		for c := range readers {
			c.notify(true)
		}
	}
}
