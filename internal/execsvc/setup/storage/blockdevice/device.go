package blockdevice

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/openfile"
)

// devDir is the directory of devices. Tests replace it.
var devDir = "/dev"

// openat2 is the system call; tests replace it with that of an old kernel.
var openat2 = unix.Openat2

var (
	// ErrKind is the error of a file that isn't a block device.
	ErrKind = errors.New("it isn't a block device")
	// ErrOutside is the error of a symbolic link that doesn't lead into /dev.
	ErrOutside = errors.New("it is a symbolic link that doesn't lead into /dev, and isn't followed")
)

// Number is a device's number.
type Number struct{ Major, Minor uint32 }

func (n Number) String() string { return fmt.Sprintf("%d:%d", n.Major, n.Minor) }

// Device is a block device, opened for reference only.
type Device struct {
	// Path is the device's file: the one that was looked up, or the one in /dev to which its link leads.
	Path   string
	Number Number
	fd     int
}

// Close ends the reference.
func (d *Device) Close() error { return unix.Close(d.fd) }

// At returns the device called name in an open directory. If name is a symbolic link into /dev, it is the device there.
// What is missing is fs.ErrNotExist.
func At(dir *os.File, name string) (*Device, error) {
	file := filepath.Join(dir.Name(), name)
	fd, err := again(func() (int, error) {
		return unix.Openat(int(dir.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: file, Err: err}
	}
	kind, number, err := examine(fd)
	if err == nil && kind == unix.S_IFLNK {
		return linked(fd, file)
	}
	if err == nil && kind != unix.S_IFBLK {
		err = ErrKind
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", file, err), unix.Close(fd))
	}
	return &Device{Path: file, Number: number, fd: fd}, nil
}

// examine returns the type of an open file and its device number. It doesn't ask the server of a foreign file system, which
// may never answer.
func examine(fd int) (kind uint32, n Number, err error) {
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st); err != nil {
		return 0, n, err
	}
	return uint32(st.Mode) & unix.S_IFMT, Number{st.Rdev_major, st.Rdev_minor}, nil
}

// linked returns the device to which the open link leads. It closes the link.
func linked(link int, file string) (*Device, error) {
	defer func() { _ = unix.Close(link) }()
	text, err := readLink(link, "")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	name, in := strings.CutPrefix(path.Clean(text), devDir+"/")
	if !in {
		return nil, fmt.Errorf("%s leads to %.300q: %w", file, text, ErrOutside)
	}
	fd, err := beneathDev(name)
	if err != nil {
		return nil, fmt.Errorf("%s leads to %.300q: %w", file, text, err)
	}
	kind, number, err := examine(fd)
	if err == nil && kind != unix.S_IFBLK {
		err = ErrKind
	}
	var at string
	if err == nil {
		at, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	}
	if err == nil && !strings.HasPrefix(at, devDir+"/") {
		err = ErrOutside
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s leads to %.300q: %w", file, text, err), unix.Close(fd))
	}
	return &Device{Path: at, Number: number, fd: fd}, nil
}

// beneathDev opens a file of /dev for reference only. Links within /dev are followed, such as those of /dev/disk.
func beneathDev(name string) (int, error) {
	dev, err := os.OpenFile(devDir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, err
	}
	defer dev.Close()
	how := &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	}
	fd, err := again(func() (int, error) { return openat2(int(dev.Fd()), name, how) })
	switch {
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
		// Linux before 5.6, or a seccomp profile without it. No link is followed then.
		fd, err = openfile.LookupStepwise(int(dev.Fd()), name)
	case errors.Is(err, unix.EXDEV):
		err = ErrOutside
	}
	return fd, err
}

// readLink returns the text of a link: name in the open directory, or the open link itself if name is empty.
func readLink(at int, name string) (string, error) {
	text := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(at, name, text)
	if err != nil {
		return "", fmt.Errorf("read the link: %w", err)
	}
	return string(text[:n]), nil
}

// maxRaces is the number of retries after the kernel's EAGAIN, a rename during the lookup.
const maxRaces = 16

// again repeats a call that a signal or a rename interrupts.
func again(call func() (int, error)) (int, error) {
	for n := 0; ; n++ {
		fd, err := call()
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) && n < maxRaces {
			continue
		}
		return fd, err
	}
}
