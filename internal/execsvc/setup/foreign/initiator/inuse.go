package initiator

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/blockdevice"
	"github.com/podstream/podstream/internal/mounttable"
)

// filesAtOnce bounds the open files of a process whose names are read at once.
const filesAtOnce = 1024

// filesLimit bounds the time in which the open files of all processes are looked at: each takes some microseconds. It is changed by tests.
var filesLimit = 30 * time.Second

// InUseError is the error of a disk that something uses.
type InUseError struct{ Disk, By string }

func (i *InUseError) Error() string { return fmt.Sprintf("the disk %s is in use: %s", i.Disk, i.By) }

// free returns an InUseError if anything has the block device, or a partition of it, mounted, mapped or open, and another error if that
// can't be found out. maps are those of its partitions: they may have it, if nothing has them. The returned files keep others from mounting
// the device and the maps until they are closed.
func (h *Host) free(name, number string, maps ...device) (opened, error) {
	use := func(of, format string, args ...any) error { return &InUseError{of, fmt.Sprintf(format, args...)} }
	all, err := h.whole(name, number)
	if err != nil {
		return nil, err
	}
	all = append(all, maps...)
	for _, d := range all {
		holders, err := names(d.dir, "holders")
		if err != nil {
			return nil, err
		}
		if d.name == name {
			holders = slices.DeleteFunc(holders, func(n string) bool { return isAmong(maps, n) })
		}
		if len(holders) > 0 {
			return nil, use(d.name, "%.200s has it", strings.Join(holders, ", "))
		}
	}
	switch of, at, err := h.mountOf(all); {
	case err != nil:
		return nil, err
	case at != "":
		return nil, use(of, "it is mounted at %.300s", at)
	}
	switch of, loop, err := h.loopOf(all); {
	case err != nil:
		return nil, err
	case loop != "":
		return nil, use(of, "the loop device %s has it", loop)
	}
	switch of, pid, err := h.openedBy(unix.S_IFBLK, all); {
	case err != nil:
		return nil, err
	case pid != "":
		return nil, use(of, "process %s has it open", pid)
	}
	return h.claim(name, number, maps)
}

func isAmong(all []device, name string) bool {
	return slices.ContainsFunc(all, func(d device) bool { return d.name == name })
}

// whole returns the block device and its partitions.
func (h *Host) whole(name, number string) ([]device, error) {
	parts, err := h.partitions(name)
	return append([]device{{name, number, h.sys("block", name)}}, parts...), err
}

// claim opens the block device and the maps of its partitions so that no others can mount them.
func (h *Host) claim(name, number string, maps []device) (files opened, err error) {
	defer func() {
		if err != nil {
			_ = files.Close()
			files = nil
		}
	}()
	for _, d := range append(slices.Clone(maps), device{name: name, number: number}) {
		f, err := h.open(d.name, d.number, unix.O_EXCL)
		if errors.Is(err, unix.EBUSY) && d.name == name && len(maps) > 0 {
			// Its maps have claimed it, and they stay while they are open here. So nothing else has, such as a mount.
			f, err = h.open(d.name, d.number, 0)
		}
		if errors.Is(err, unix.EBUSY) {
			err = &InUseError{d.name, "a mount in another namespace, or the kernel, has it"}
		}
		if err != nil {
			return files, err
		}
		files = append(files, f)
	}
	return files, nil
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

// mountOf returns where one of the devices is mounted in this namespace; empty: nowhere.
func (h *Host) mountOf(all []device) (of, at string, err error) { return h.mountIn("self", all) }

// mountIn is mountOf in a process's namespace.
func (h *Host) mountIn(process string, all []device) (of, at string, err error) {
	mounts, err := mounttable.SelectFile(filepath.Join(h.proc(process), "mountinfo"), func(m *mounttable.Mount) bool {
		return slices.ContainsFunc(all, func(d device) bool { return blockdevice.IsOf(m, d.number) })
	})
	if err != nil || len(mounts) == 0 {
		return "", "", err
	}
	for _, d := range all {
		if blockdevice.IsOf(&mounts[0], d.number) {
			of = d.name
		}
	}
	return of, mounts[0].Point, nil
}

// loopOf returns a loop device of one of the devices; empty: there is none.
func (h *Host) loopOf(all []device) (of, loop string, err error) {
	loops, err := filepath.Glob(filepath.Join(globEscaped(h.sys("block")), "loop*", "loop", "backing_file"))
	if err != nil {
		return "", "", err
	}
	for _, at := range loops {
		file, err := attribute(at)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.ENXIO) {
			return "", "", err
		}
		for _, d := range all {
			if file == h.dev(d.name) {
				return d.name, filepath.Base(filepath.Dir(filepath.Dir(at))), nil
			}
		}
	}
	return "", "", nil
}

// openedBy returns a process that has one of the devices of the kind, S_IFBLK or S_IFCHR, open; empty: none has. It asks no server of a
// foreign file system.
func (h *Host) openedBy(kind uint32, all []device) (of, pid string, err error) {
	processes, err := names(h.proc(""))
	if err != nil {
		return "", "", err
	}
	end := time.Now().Add(filesLimit)
	for _, pid := range processes {
		if n, err := strconv.Atoi(pid); err != nil || n == os.Getpid() {
			continue
		}
		of, err := openIn(filepath.Join(h.proc(pid), "fd"), end, kind, all)
		if err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, fs.ErrNotExist) {
			return "", "", fmt.Errorf("look at the open files of process %s: %w", pid, err)
		}
		if of != "" {
			return of, pid, nil
		}
	}
	return "", "", nil
}

// openIn returns which of the devices of the kind is among the open files in a directory of /proc; empty: none is.
func openIn(dir string, end time.Time, kind uint32, all []device) (of string, err error) {
	files, err := os.Open(dir)
	if err != nil {
		return "", err
	}
	defer files.Close()
	for {
		fds, err := files.Readdirnames(filesAtOnce)
		if errors.Is(err, io.EOF) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		if time.Now().After(end) {
			return "", fmt.Errorf("those of all processes are too many to be looked at within %s", filesLimit)
		}
		for _, fd := range fds {
			number := openDevice(files, fd, kind)
			if i := slices.IndexFunc(all, func(d device) bool { return d.number == number }); number != "" && i >= 0 {
				return all[i].name, nil
			}
		}
	}
}

// openDevice returns the number of the device of the kind to which the link of an open file leads; empty: it leads to something else.
func openDevice(dir *os.File, fd string, kind uint32) string {
	var st unix.Statx_t
	// It fails if the file has just been closed, or its server has gone: then it isn't a disk.
	err := unix.Statx(int(dir.Fd()), fd, unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st)
	if err != nil || uint32(st.Mode)&unix.S_IFMT != kind {
		return ""
	}
	return fmt.Sprintf("%d:%d", st.Rdev_major, st.Rdev_minor)
}
