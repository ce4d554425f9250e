package memcg

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// The files of a cgroup: its usage, and the one that registers an eventfd.
const (
	usageFile   = "memory.usage_in_bytes"
	controlFile = "cgroup.event_control"
)

// Threshold is an amount of memory that a cgroup may cross.
type Threshold struct {
	// Dir is the cgroup's directory in the hierarchy of the memory controller.
	Dir   string
	Bytes int64
}

// Notifier reports crossings of thresholds. One goroutine at a time may call Arm and Close.
type Notifier struct {
	ready chan struct{}
	// events is the eventfd of the thresholds that are armed; nil if none are. ended is closed when its goroutine ends.
	events *os.File
	ended  chan struct{}
}

// New returns a Notifier that isn't armed.
func New() *Notifier { return &Notifier{ready: make(chan struct{}, 1)} }

// Ready receives a value when a threshold was crossed, or when a cgroup that has one was removed.
func (n *Notifier) Ready() <-chan struct{} { return n.ready }

// Arm replaces the thresholds. One that is an error doesn't keep the others from being armed.
func (n *Notifier) Arm(all []Threshold) error {
	// A file that can be polled: closing it ends a Read.
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("make an eventfd: %w", err)
	}
	events := os.NewFile(uintptr(fd), "eventfd") //nolint:gosec // A descriptor.
	var errs []error
	for _, t := range all {
		errs = append(errs, register(fd, t))
	}
	n.Close()
	n.events, n.ended = events, make(chan struct{})
	go n.watch(n.events, n.ended)
	return errors.Join(errs...)
}

// Close disarms the Notifier and waits for the end of its goroutine. The kernel drops the thresholds of a closed
// eventfd.
func (n *Notifier) Close() {
	if n.events != nil {
		_ = n.events.Close()
		<-n.ended
		n.events = nil
	}
}

// watch passes on the events of the eventfd until it is closed.
func (n *Notifier) watch(events *os.File, ended chan<- struct{}) {
	defer close(ended)
	count := make([]byte, 8)
	for {
		if _, err := events.Read(count); err != nil {
			return
		}
		select {
		case n.ready <- struct{}{}:
		default:
		}
	}
}

// register has the kernel write to the eventfd when the threshold is crossed.
func register(eventfd int, t Threshold) error {
	usage, err := os.Open(filepath.Join(t.Dir, usageFile))
	if err != nil {
		return err
	}
	defer func() { _ = usage.Close() }()
	control, err := os.OpenFile(filepath.Join(t.Dir, controlFile), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() { _ = control.Close() }()
	line := strconv.Itoa(eventfd) + " " + strconv.Itoa(int(usage.Fd())) + " " + strconv.FormatInt(t.Bytes, 10)
	_, err = control.WriteString(line)
	return err
}
