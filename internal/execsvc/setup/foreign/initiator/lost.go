package initiator

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/mounttable"
)

// lostState is the state of a disk whose session has been away for longer than open-iscsi waits. It can't be opened.
const lostState = "transport-offline"

// maxSwaps bounds the list of swap areas.
const maxSwaps = 64 << 10

// isLost reports whether the kernel has given up a disk, or all paths of a multipath device.
func (h *Host) isLost(name string) bool {
	if mapName.MatchString(name) {
		paths, err := names(h.sys("block", name, "slaves"))
		return err == nil && len(paths) > 0 && !slices.ContainsFunc(paths, func(p string) bool {
			return !diskName.MatchString(p) || !h.isLost(p)
		})
	}
	state, err := attribute(h.sys("block", name, "device", "state"))
	return err == nil && state == lostState
}

// unmounted returns an InUseError if a disk that can't be opened, or a partition of it, is mounted in any namespace, by what the file systems show in sysfs, and
// by the tables of all processes. It is for a disk of which free has found no other use.
func (h *Host) unmounted(name, number string, maps ...device) error {
	all, err := h.whole(name, number)
	if err != nil {
		return err
	}
	all = append(all, maps...)
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
	if of, err := h.swapOn(all); err != nil || of != "" {
		if err == nil {
			err = &InUseError{of, "the kernel swaps to it"}
		}
		return err
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

// swapOn returns which of the devices the kernel swaps to; empty: none. A swap file is on a mount. The devices of the list can be looked at
// without their server.
func (h *Host) swapOn(all []device) (of string, err error) {
	data, err := readFile(h.proc("swaps"), maxSwaps)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // A kernel without swap.
	}
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[1] != "partition" {
			continue
		}
		// Its name may be that of a link, and has blanks as \040; a device that was removed ends with \040(deleted).
		name := strings.NewReplacer(`\040(deleted)`, "", `\040`, " ").Replace(fields[0])
		var st unix.Stat_t
		statErr := unix.Stat(name, &st)
		number := fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
		for _, d := range all {
			if filepath.Base(name) == d.name || statErr == nil && st.Mode&unix.S_IFMT == unix.S_IFBLK && number == d.number {
				return d.name, nil
			}
		}
	}
	return "", nil
}
