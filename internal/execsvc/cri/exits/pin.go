package exits

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// errEnded is pin's error for a process that has ended.
var errEnded = errors.New("the process has ended")

// pin returns a pidfd of the process if it is that container's and alive.
func (w *Watcher) pin(id string, pid int) (fd int, err error) {
	fd, err = unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return 0, errEnded
	}
	if err != nil {
		return 0, fmt.Errorf("open process %d: %w", pid, err)
	}
	cgroups, err := os.ReadFile(filepath.Join(w.proc, strconv.Itoa(pid), "cgroup"))
	switch {
	case hasEnded(fd):
		// The cgroup that was read may be another process's.
		err = errEnded
	case err != nil:
		err = fmt.Errorf("read the cgroup of process %d: %w", pid, err)
	case !InContainer(string(cgroups), id):
		err = fmt.Errorf("%w: process %d", ErrStranger, pid)
	default:
		return fd, nil
	}
	return 0, errors.Join(err, unix.Close(fd))
}

// hasEnded reports whether a pidfd's process has ended.
func hasEnded(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} //nolint:gosec // The kernel's file descriptors are int32.
	for {
		n, err := unix.Poll(fds, 0)
		if !errors.Is(err, unix.EINTR) {
			return n > 0
		}
	}
}

// InContainer reports whether a process with these cgroups (cgroups(7), /proc/pid/cgroup) is the container's: one of the
// directories has its ID as the name, as with cgroupfs, or is a scope of systemd's that ends with it
// ("cri-containerd-<id>.scope", "crio-<id>.scope").
func InContainer(cgroups, id string) bool {
	for line := range strings.Lines(cgroups) {
		_, rest, _ := strings.Cut(line, ":")
		_, path, _ := strings.Cut(strings.TrimSuffix(rest, "\n"), ":")
		for dir := range strings.SplitSeq(path, "/") {
			if dir == id || strings.HasSuffix(dir, "-"+id+".scope") {
				return id != ""
			}
		}
	}
	return false
}
