package initiator

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

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

// part is a disk, or a partition of it.
type part struct{ name, number string }

// parts returns a disk and its partitions. What can't be read is an error.
func (h *Host) parts(name, number string) ([]part, error) {
	dir := h.sys("block", name)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	all := []part{{name, number}}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), name) {
			continue
		}
		number, err := attribute(dir, e.Name(), "dev")
		if err == nil && number == "" {
			err = fmt.Errorf("the partition %s has no number", e.Name())
		}
		if err != nil {
			return nil, err
		}
		all = append(all, part{e.Name(), number})
	}
	return all, nil
}

// unmounted returns an InUseError if a disk that can't be opened, or a partition of it, is mounted in any namespace, by what the file
// systems show in sysfs, and by the tables of all processes. It is for a disk of which free has found no other use.
func (h *Host) unmounted(name, number string) error {
	parts, err := h.parts(name, number)
	if err != nil {
		return fmt.Errorf("look for the partitions of the disk %s: %w", name, err)
	}
	for _, p := range parts {
		if p.name != name {
			if err := h.unusedPart(name, p); err != nil {
				return err
			}
		}
		for _, pattern := range []string{filepath.Join("*", p.name), filepath.Join("*", "*", "devices", p.name)} {
			found, err := filepath.Glob(filepath.Join(globEscaped(h.sys("fs")), pattern))
			if err != nil {
				return err
			}
			if len(found) > 0 {
				return &InUseError{name, "a mount in another namespace has it: " + found[0]}
			}
		}
	}
	return h.unmountedIn(name, parts)
}

// unusedPart returns an InUseError if a partition of a disk is mapped or open. A disk that can be opened tells that itself.
func (h *Host) unusedPart(disk string, p part) error {
	has, err := names(h.sys("block", disk, p.name, "holders"))
	if err != nil {
		return err
	}
	if len(has) > 0 {
		return &InUseError{disk, fmt.Sprintf("%.200s has its partition %s", strings.Join(has, ", "), p.name)}
	}
	loop, err := h.loopOf(p.name)
	if err != nil {
		return err
	}
	if loop != "" {
		return &InUseError{disk, fmt.Sprintf("the loop device %s has its partition %s", loop, p.name)}
	}
	pid, err := h.openedBy(unix.S_IFBLK, p.number)
	if err == nil && pid != "" {
		err = &InUseError{disk, fmt.Sprintf("process %s has its partition %s open", pid, p.name)}
	}
	return err
}

// unmountedIn is unmounted by the tables of all processes.
func (h *Host) unmountedIn(name string, parts []part) error {
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
		at, err := h.mountIn(pid, parts)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH), errors.Is(err, unix.EINVAL), errors.Is(err, mounttable.ErrNoMounts):
			continue // It has ended, or its root is on no mount of its namespace; another process there may see more.
		case err != nil:
			return err
		case at != "":
			return &InUseError{name, fmt.Sprintf("it is mounted at %.300s of process %s", at, pid)}
		}
		seen[space] = true
	}
	return nil
}
