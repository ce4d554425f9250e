package blockdevice

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// maxTag is the maximum length of a tag: the kernel keeps 64 bytes with the final zero.
	maxTag = unix.LO_NAME_SIZE - 1
	// maxAttempts bounds the attempts to get a loop device that another process doesn't take first.
	maxAttempts = 64
)

// sysBlock has a directory for each block device, with one called loop if it is a loop device in use.
const sysBlock = "/sys/block"

// Hold keeps the device open in the kernel until Release, also after podexecd has ended. The tag must be the caller's own,
// of at most 63 bytes. A device that is held already stays so; another device with this tag is released.
func (d *Device) Hold(tag string) error {
	if tag == "" || len(tag) > maxTag {
		return fmt.Errorf("the tag %.100q of a loop device must have 1 to %d bytes", tag, maxTag)
	}
	held, is, err := Held(tag)
	switch {
	case err != nil:
		return err
	case is && held == d.Number:
		return nil
	case is:
		if err := Release(tag); err != nil {
			return err
		}
	}
	// This opens what fd refers to, whatever the path leads to meanwhile.
	backing, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", d.fd), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("open the block device %s (%v): %w", d.Path, d.Number, errors.Unwrap(err))
	}
	defer backing.Close()
	if err := attach(backing, tag); err != nil {
		return fmt.Errorf("hold the block device %s (%v) by a loop device, without which it could be exchanged: %w", d.Path, d.Number, err)
	}
	return nil
}

// attach has a loop device refer to the file.
func attach(backing *os.File, tag string) error {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer control.Close()
	for n := 0; ; n++ {
		number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return fmt.Errorf("get a free loop device: %w", err)
		}
		err = configure(fmt.Sprintf("/dev/loop%d", number), backing, tag)
		if err == nil || !errors.Is(err, unix.EBUSY) || n == maxAttempts {
			return err
		}
	}
}

// configure has the loop device refer to the file. It is EBUSY if the loop device is in use.
func configure(loop string, backing *os.File, tag string) error {
	f, err := os.OpenFile(loop, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	// With the number and the tag in one call no process that ends meanwhile leaves a loop device without a tag.
	config := unix.LoopConfig{Fd: uint32(backing.Fd())} //nolint:gosec // A descriptor is small.
	config.Info.Flags = unix.LO_FLAGS_READ_ONLY
	copy(config.Info.File_name[:], tag)
	if err := unix.IoctlLoopConfigure(int(f.Fd()), &config); err != nil {
		return fmt.Errorf("configure %s (Linux 5.8 or later can): %w", loop, err)
	}
	return nil
}

// Held returns the number of the device that is held with the tag.
func Held(tag string) (n Number, is bool, err error) {
	err = each(tag, func(_ *os.File, info *unix.LoopInfo64) error {
		n, is = Number{unix.Major(info.Rdevice), unix.Minor(info.Rdevice)}, true
		return nil
	})
	return n, is, err
}

// Release ends Hold. A tag that holds nothing is no error.
func Release(tag string) error {
	return each(tag, func(loop *os.File, _ *unix.LoopInfo64) error {
		// If a program such as udev has the loop device open, it goes when that closes it.
		if err := unix.IoctlSetInt(int(loop.Fd()), unix.LOOP_CLR_FD, 0); err != nil && !errors.Is(err, unix.ENXIO) {
			return fmt.Errorf("release %s, which holds a block device: %w", loop.Name(), err)
		}
		return nil
	})
}

// each calls visit for each loop device with the tag. A loop device that goes when its last user closes it isn't visited.
func each(tag string, visit func(*os.File, *unix.LoopInfo64) error) error {
	used, err := filepath.Glob(filepath.Join(sysBlock, "loop*", "loop"))
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range used {
		errs = append(errs, visitLoop(filepath.Base(filepath.Dir(dir)), tag, visit))
	}
	return errors.Join(errs...)
}

func visitLoop(name, tag string, visit func(*os.File, *unix.LoopInfo64) error) error {
	f, err := os.OpenFile("/dev/"+name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENODEV) {
		return nil // It has just been removed.
	}
	if err != nil {
		return fmt.Errorf("look at a loop device: %w", err)
	}
	defer f.Close()
	info, err := unix.IoctlLoopGetStatus64(int(f.Fd()))
	if errors.Is(err, unix.ENXIO) {
		return nil // It isn't in use any more.
	}
	if err != nil {
		return fmt.Errorf("read the status of /dev/%s: %w", name, err)
	}
	has, _, _ := strings.Cut(string(info.File_name[:]), "\x00")
	if has != tag || info.Flags&unix.LO_FLAGS_AUTOCLEAR != 0 {
		return nil
	}
	return visit(f, info)
}
