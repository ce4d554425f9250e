package initiator

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/mounttable"
)

// lostState is the state of a disk whose session has been away for longer than open-iscsi waits. It can't be opened.
const lostState = "transport-offline"

// isLost reports whether the kernel has given up a disk.
func (h *Host) isLost(name string) bool {
	state, err := attribute(h.sys("block", name, "device", "state"))
	return err == nil && state == lostState
}

// unmounted returns an InUseError if a disk that can't be opened, or a partition of it, is mounted in any namespace, by what the file systems show in sysfs, and
// by the tables of all processes. It is for a disk of which free has found no other use.
func (h *Host) unmounted(name, number string) error {
	all, err := h.whole(name, number)
	if err != nil {
		return err
	}
	for _, d := range all {
		for _, pattern := range []string{filepath.Join("*", d.name), filepath.Join("*", "*", "devices", d.name)} {
			found, err := filepath.Glob(filepath.Join(globEscaped(h.sys("fs")), pattern))
			if err != nil {
				return err
			}
			if len(found) > 0 {
				return &InUseError{d.name, "a mount in another namespace has it: " + found[0]}
			}
		}
	}
	processes, err := names(h.proc(""))
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, pid := range processes {
		if _, err := strconv.Atoi(pid); err != nil {
			continue
		}
		space, err := os.Readlink(filepath.Join(h.proc(pid), "ns", "mnt"))
		if err == nil && seen[space] {
			continue
		}
		of, at, err := h.mountIn(pid, all)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH), errors.Is(err, unix.EINVAL), errors.Is(err, mounttable.ErrNoMounts):
			continue // It has ended, or its root is on no mount of its namespace; another process there may see more.
		case err != nil:
			return err
		case at != "":
			return &InUseError{of, fmt.Sprintf("it is mounted at %.300s of process %s", at, pid)}
		}
		seen[space] = true
	}
	return nil
}
