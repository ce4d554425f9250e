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

	"github.com/podstream/podstream/internal/execsvc/setup/storage/blockdevice"
	"github.com/podstream/podstream/internal/mounttable"
)

// maxFiles bounds the open files of all processes that are looked at.
const maxFiles = 4 << 20

// InUseError is the error of a disk that something uses.
type InUseError struct{ Disk, By string }

func (i *InUseError) Error() string { return fmt.Sprintf("the disk %s is in use: %s", i.Disk, i.By) }

// free returns an InUseError if anything has the block device mounted, mapped or open, and another error if that can't be found out.
// The returned file keeps others from mounting the device until it is closed.
func (h *Host) free(name, number string) (*os.File, error) {
	use := func(format string, args ...any) error { return &InUseError{name, fmt.Sprintf(format, args...)} }
	dir := h.sys("block", name)
	has, err := names(dir, "holders")
	if err != nil {
		return nil, err
	}
	if len(has) > 0 {
		return nil, use("%.200s has it", strings.Join(has, ", "))
	}
	switch at, err := h.mountOf(number); {
	case err != nil:
		return nil, err
	case at != "":
		return nil, use("it is mounted at %.300s", at)
	}
	switch loop, err := h.loopOf(name); {
	case err != nil:
		return nil, err
	case loop != "":
		return nil, use("the loop device %s has it", loop)
	}
	switch pid, err := h.openedBy(unix.S_IFBLK, number); {
	case err != nil:
		return nil, err
	case pid != "":
		return nil, use("process %s has it open", pid)
	}
	f, err := h.open(name, number, unix.O_EXCL)
	if errors.Is(err, unix.EBUSY) {
		return nil, use("a mount in another namespace, or the kernel, has it")
	}
	return f, err
}

// open opens the block device, which must have that number.
func (h *Host) open(name, number string, flags int) (*os.File, error) {
	f, err := os.OpenFile(h.dev(name), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|flags, 0)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	is := fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	if st.Mode&unix.S_IFMT != unix.S_IFBLK || is != number {
		return nil, errors.Join(fmt.Errorf("%s isn't the block device %s", f.Name(), number), f.Close())
	}
	return f, nil
}

// mountOf returns where a device is mounted in this namespace; empty: nowhere.
func (h *Host) mountOf(number string) (string, error) {
	return h.mountIn("self", []part{{number: number}})
}

// mountIn is mountOf in a process's namespace, of several devices.
func (h *Host) mountIn(process string, parts []part) (string, error) {
	mounts, err := mounttable.SelectFile(filepath.Join(h.proc(process), "mountinfo"), func(m *mounttable.Mount) bool {
		return slices.ContainsFunc(parts, func(p part) bool { return blockdevice.IsOf(m, p.number) })
	})
	if err != nil || len(mounts) == 0 {
		return "", err
	}
	return mounts[0].Point, nil
}

// loopOf returns a loop device of the block device; empty: there is none.
func (h *Host) loopOf(name string) (string, error) {
	all, err := filepath.Glob(filepath.Join(globEscaped(h.sys("block")), "loop*", "loop", "backing_file"))
	if err != nil {
		return "", err
	}
	for _, at := range all {
		file, err := attribute(at)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.ENXIO) {
			return "", err
		}
		if file == h.dev(name) {
			return filepath.Base(filepath.Dir(filepath.Dir(at))), nil
		}
	}
	return "", nil
}

// openedBy returns a process that has the device of the kind, S_IFBLK or S_IFCHR, open; empty: none has. It asks no server of a foreign
// file system.
func (h *Host) openedBy(kind uint32, number string) (string, error) {
	processes, err := names(h.proc(""))
	if err != nil {
		return "", err
	}
	seen := 0
	for _, pid := range processes {
		if n, err := strconv.Atoi(pid); err != nil || n == os.Getpid() {
			continue
		}
		dir := filepath.Join(h.proc(pid), "fd")
		fds, err := names(dir)
		if err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("look at the open files of process %s: %w", pid, err)
		}
		if seen += len(fds); seen > maxFiles {
			return "", fmt.Errorf("the processes of this machine have more than %d open files", maxFiles)
		}
		for _, fd := range fds {
			if isOpen(filepath.Join(dir, fd), kind, number) {
				return pid, nil
			}
		}
	}
	return "", nil
}

// isOpen reports whether the link of an open file leads to the device.
func isOpen(link string, kind uint32, number string) bool {
	if to, err := os.Readlink(link); err != nil || !strings.HasPrefix(to, "/") {
		return false
	}
	var st unix.Statx_t
	// It fails if the file has just been closed, or its server has gone: then it isn't a disk.
	err := unix.Statx(unix.AT_FDCWD, link, unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st)
	return err == nil && uint32(st.Mode)&unix.S_IFMT == kind && fmt.Sprintf("%d:%d", st.Rdev_major, st.Rdev_minor) == number
}
