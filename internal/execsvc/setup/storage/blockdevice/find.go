package blockdevice

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// sysBlock has a directory for each block device, with one called loop if it is a loop device in use. Tests replace it.
var sysBlock = "/sys/block"

// maxAttribute bounds an attribute in sysfs: it has at most a page.
const maxAttribute = 4096

// markBit makes each mark larger than any device.
const markBit = 1 << 62

// markOf returns the size limit of a loop device that holds a device with the tag. sysfs shows it, so that those of other programs
// aren't asked: to open one, or its status, may hang as long as the file system of its file. It limits nothing, as it is larger than any
// device.
func markOf(tag string) uint64 {
	sum := sha256.Sum256([]byte(tag))
	return markBit | binary.BigEndian.Uint64(sum[:])&(markBit-1)
}

// each calls visit for each loop device with the tag. A loop device that goes when its last user closes it isn't visited.
func each(tag string, visit func(*os.File, *unix.LoopInfo64) error) error {
	used, err := filepath.Glob(filepath.Join(sysBlock, "loop*", "loop"))
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range used {
		device := filepath.Dir(dir)
		switch own, earlier, err := mayHave(device, tag); {
		case err != nil:
			errs = append(errs, err)
		case own:
			errs = append(errs, visitLoop(filepath.Base(device), tag, visit))
		case earlier:
			// If it can't be asked, it is as if it weren't there: another program's may be one that can't.
			if err := visitLoop(filepath.Base(device), tag, visit); !isUnknown(err) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// mayHave reports, by sysfs alone, whether the loop device has the tag's mark, and whether an earlier podexecd, which set none, may
// have made it for a published device.
func mayHave(device, tag string) (own, earlier bool, err error) {
	for name, want := range map[string]string{"ro": "1", "loop/autoclear": "0", "loop/offset": "0"} {
		if value, err := attribute(device, name); err != nil || value != want {
			return false, false, err
		}
	}
	switch limit, err := attribute(device, "loop/sizelimit"); {
	case err != nil:
		return false, false, err
	case limit == strconv.FormatUint(markOf(tag), 10):
		return true, false, nil
	case limit != "0":
		return false, false, nil
	}
	backing, err := attribute(device, "loop/backing_file")
	return false, strings.HasPrefix(backing, devDir+"/") || strings.Contains(backing, "/volumeDevices/publish/"), err
}

// attribute returns an attribute of a block device. Empty: a loop device has just been released, or its file has no path that the kernel
// can show.
func attribute(device, name string) (string, error) {
	data, err := read(filepath.Join(device, name))
	for _, absent := range []error{unix.ENOENT, unix.ENODEV, unix.ENXIO, unix.ENAMETOOLONG} {
		if errors.Is(err, absent) {
			return "", nil
		}
	}
	if err != nil {
		return "", fmt.Errorf("look at a loop device: %w", err)
	}
	return strings.TrimSuffix(string(data), "\n"), nil
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxAttribute))
}

// unknownError is the error of a loop device that couldn't be asked for its tag.
type unknownError struct{ err error }

func (u unknownError) Error() string { return u.err.Error() }
func (u unknownError) Unwrap() error { return u.err }

func isUnknown(err error) bool {
	_, is := errors.AsType[unknownError](err)
	return is
}

// visitLoop calls visit if the loop device has the tag.
func visitLoop(name, tag string, visit func(*os.File, *unix.LoopInfo64) error) error {
	path := filepath.Join(devDir, name)
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENODEV) {
		return nil // It has just been removed.
	}
	if err != nil {
		return unknownError{fmt.Errorf("look at a loop device: %w", err)}
	}
	defer f.Close()
	info, err := unix.IoctlLoopGetStatus64(int(f.Fd()))
	if errors.Is(err, unix.ENXIO) {
		return nil // It isn't in use any more.
	}
	if err != nil {
		return unknownError{fmt.Errorf("read the status of %s: %w", path, err)}
	}
	has, _, _ := strings.Cut(string(info.File_name[:]), "\x00")
	if has != tag || info.Flags&unix.LO_FLAGS_AUTOCLEAR != 0 {
		return nil
	}
	return visit(f, info)
}
