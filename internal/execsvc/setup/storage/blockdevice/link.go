package blockdevice

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrNoLink is the error of a file in the place of a link. It is left as it is.
var ErrNoLink = errors.New("it isn't a symbolic link, and is left as it is")

// Link makes name in an open directory a symbolic link to the device. A link that leads elsewhere is replaced.
func (d *Device) Link(dir *os.File, name string) error {
	if text, err := readLink(int(dir.Fd()), name); err == nil && text == d.Path {
		return nil
	}
	if err := Unlink(dir, name); err != nil {
		return err
	}
	if err := unix.Symlinkat(d.Path, int(dir.Fd()), name); err != nil {
		return fmt.Errorf("link %s to the device: %w", filepath.Join(dir.Name(), name), err)
	}
	return nil
}

// IsLinked reports whether name in an open directory is a symbolic link to the device.
func (d *Device) IsLinked(dir *os.File, name string) bool {
	text, err := readLink(int(dir.Fd()), name)
	return err == nil && text == d.Path
}

// Unlink removes a link in an open directory, unless it is missing. Anything else is ErrNoLink.
func Unlink(dir *os.File, name string) error {
	file := filepath.Join(dir.Name(), name)
	var st unix.Stat_t
	err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err == nil && st.Mode&unix.S_IFMT != unix.S_IFLNK:
		return fmt.Errorf("%s: %w", file, ErrNoLink)
	case err == nil:
		// It may have been replaced meanwhile by an empty file of the same directory, but not by a directory or a mount.
		err = unix.Unlinkat(int(dir.Fd()), name, 0)
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove the link %s: %w", file, err)
	}
	return nil
}
