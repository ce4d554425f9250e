package exits

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrStranger is what Follow returns for a process that isn't in a cgroup of the container.
var ErrStranger = errors.New("the process isn't in a cgroup of the container")

// Config of a Watcher; its zero value works.
type Config struct {
	// Logger gets a line if epoll fails for good. Nil discards.
	Logger *slog.Logger
}

// Watcher follows processes. It is safe for concurrent use.
type Watcher struct {
	log *slog.Logger
	// Go's poller waits for epoll itself, so it needs no thread; conn is its handle.
	epoll *os.File
	conn  syscall.RawConn
	// proc is the directory with the cgroups of processes: /proc.
	proc  string
	ready chan struct{}
	done  chan struct{}

	mu     sync.Mutex
	closed bool
	// pidfds has the pidfd of each ID, and ids the reverse.
	pidfds map[string]int
	ids    map[int]string
	ended  []string
}

// New returns a Watcher that follows no process yet. It fails without epoll. Without pidfds (Linux before 5.3, or a
// seccomp profile that forbids them) Follow fails.
func New(cfg Config) (*Watcher, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make an epoll: %w", err)
	}
	// Go's poller handles non-blocking files only.
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(fmt.Errorf("make an epoll that doesn't block: %w", err), unix.Close(fd))
	}
	w := &Watcher{
		log: cfg.Logger, epoll: os.NewFile(uintptr(fd), "epoll"), proc: "/proc", ready: make(chan struct{}, 1), done: make(chan struct{}),
		pidfds: map[string]int{}, ids: map[int]string{},
	}
	if w.conn, err = w.epoll.SyscallConn(); err != nil {
		return nil, errors.Join(fmt.Errorf("wait for an epoll: %w", err), w.epoll.Close())
	}
	go w.run()
	return w, nil
}

// Close stops following all processes, and ends the goroutine. No end is reported any more.
func (w *Watcher) Close() error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	w.closed, w.ended = true, nil
	for id := range w.pidfds {
		w.drop(id)
	}
	w.mu.Unlock()
	err := w.epoll.Close()
	<-w.done
	return err
}

// Ready gets a value when Take has IDs to return.
func (w *Watcher) Ready() <-chan struct{} { return w.ready }

// Take returns the IDs of the containers and sandboxes that ended since the last Take. None of them is followed any
// more.
func (w *Watcher) Take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	ended := w.ended
	w.ended = nil
	return ended
}

// Follow reports the end of a container's first process, once; id is the container's or sandbox's ID in the runtime. A
// process that has ended already is reported too. An ID that is followed already stays as it is. The error is
// ErrStranger if the process isn't the container's, and otherwise the reason why it can't be followed.
func (w *Watcher) Follow(id string, pid int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return os.ErrClosed
	}
	if _, ok := w.pidfds[id]; ok {
		return nil
	}
	fd, err := w.pin(id, pid)
	if errors.Is(err, errEnded) {
		w.report(id)
		return nil
	}
	if err != nil {
		return err
	}
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)} //nolint:gosec // The kernel's file descriptors are int32.
	if err := w.control(unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		return errors.Join(fmt.Errorf("wait for the end of process %d: %w", pid, err), unix.Close(fd))
	}
	w.pidfds[id], w.ids[fd] = fd, id
	return nil
}

// Unfollow stops following a process, unless its end is ready to be taken. An ID that isn't followed is ignored.
func (w *Watcher) Unfollow(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(id)
}

// run waits for ends until the epoll is closed.
func (w *Watcher) run() {
	defer close(w.done)
	err := w.conn.Read(func(fd uintptr) bool {
		w.collect(int(fd))
		// There are always more events to wait for.
		return false
	})
	w.mu.Lock()
	closed := w.closed
	w.mu.Unlock()
	if !closed {
		w.log.Error("the ends of processes can't be waited for any more; they are seen when pods are listed", "error", err)
	}
}

// collect reports all processes that have ended. It holds the lock during the system calls, which return at once, so
// that their results are of the processes that are followed now: a closed pidfd's number may be in use again.
func (w *Watcher) collect(epoll int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		var events [64]unix.EpollEvent
		n, err := unix.EpollWait(epoll, events[:], 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			w.log.Error("the ends of processes can't be read", "error", err)
			return
		}
		for _, e := range events[:n] {
			id := w.ids[int(e.Fd)]
			w.drop(id)
			w.report(id)
		}
		if n < len(events) {
			return
		}
	}
}

// report records that the process of id has ended. The caller holds mu.
func (w *Watcher) report(id string) {
	w.ended = append(w.ended, id)
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// drop stops following id. The caller holds mu.
func (w *Watcher) drop(id string) {
	fd, ok := w.pidfds[id]
	if !ok {
		return
	}
	delete(w.pidfds, id)
	delete(w.ids, fd)
	// It is removed explicitly: while a child is being forked that has a copy of it, closing doesn't remove it.
	if err := errors.Join(w.control(unix.EPOLL_CTL_DEL, fd, nil), unix.Close(fd)); err != nil {
		w.log.Error("a process can't be removed from the epoll", "id", id, "error", err)
	}
}

// control changes what the epoll waits for.
func (w *Watcher) control(op, fd int, event *unix.EpollEvent) (err error) {
	if e := w.conn.Control(func(epoll uintptr) { err = unix.EpollCtl(int(epoll), op, fd, event) }); e != nil {
		return e
	}
	return err
}
