package blockdevice

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// sysNumbers has a directory for each block device, by its number. Tests replace it.
var sysNumbers = "/sys/dev/block"

// sectorSize is the unit of sizes in sysfs.
const sectorSize = 512

// Follow returns the device to which a path leads, whatever links are in it: a helper must call it, as a file system on the way may not
// answer. It is opened for reference only (O_PATH). The device's Path is the kernel's file of it in /dev: only root can replace that, and it
// needs none of the file systems on the way.
func Follow(path string) (*Device, error) {
	fd, err := again(func() (int, error) { return unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	kind, number, err := examine(fd)
	if err == nil && kind != unix.S_IFBLK {
		err = ErrKind
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), unix.Close(fd))
	}
	own, err := Numbered(number)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), unix.Close(fd))
	}
	// Hold opens the file that the path leads to: a mount without devices there refuses that.
	d := &Device{Path: own.Path, Number: number, fd: fd}
	return d, own.Close()
}

// Numbered returns the device with this number, by the kernel's file of it in /dev.
func Numbered(n Number) (*Device, error) {
	data, err := read(filepath.Join(sysNumbers, n.String(), "uevent"))
	if err != nil {
		return nil, fmt.Errorf("look for the block device %v: %w", n, err)
	}
	name := ""
	for line := range strings.Lines(string(data)) {
		if value, is := strings.CutPrefix(line, "DEVNAME="); is {
			name = strings.TrimSuffix(value, "\n")
		}
	}
	if !filepath.IsLocal(name) {
		return nil, fmt.Errorf("the kernel has no file in /dev for the block device %v", n)
	}
	dir, err := os.Open(filepath.Join(devDir, filepath.Dir(name)))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	d, err := At(dir, filepath.Base(name))
	if err != nil {
		return nil, err
	}
	if d.Number != n {
		return nil, errors.Join(fmt.Errorf("%s is device %v, and not %v", d.Path, d.Number, n), d.Close())
	}
	return d, nil
}

// Size returns the size of a device in bytes.
func (n Number) Size() (int64, error) {
	data, err := read(filepath.Join(sysNumbers, n.String(), "size"))
	if err != nil {
		return 0, fmt.Errorf("read the size of the block device %v: %w", n, err)
	}
	sectors, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	if err != nil || sectors < 0 || sectors > 1<<63/sectorSize-1 {
		return 0, fmt.Errorf("the kernel has no size of the block device %v", n)
	}
	return sectors * sectorSize, nil
}
