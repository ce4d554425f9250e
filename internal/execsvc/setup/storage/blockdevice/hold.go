package blockdevice

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// maxTag is the maximum length of a tag: the kernel keeps 64 bytes with the final zero.
	maxTag = unix.LO_NAME_SIZE - 1
	// maxAttempts bounds the attempts to get a loop device that another process doesn't take first.
	maxAttempts = 64
)

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
	backing, err := d.open()
	if err != nil {
		return err
	}
	defer backing.Close()
	if err := attach(backing, tag); err != nil {
		return fmt.Errorf("hold the block device %s (%v) by a loop device, without which it could be exchanged: %w", d.Path, d.Number, err)
	}
	return nil
}

// open opens the device: what fd refers to, whatever the path leads to meanwhile.
func (d *Device) open() (*os.File, error) {
	f, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", d.fd), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open the block device %s (%v): %w", d.Path, d.Number, errors.Unwrap(err))
	}
	return f, nil
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
	config.Info.Sizelimit = markOf(tag)
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
