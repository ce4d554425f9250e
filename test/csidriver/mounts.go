package csidriver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/mount-utils"
)

// flagOf are the mount options that apply to a mount, not to its file system.
var flagOf = map[string]uintptr{
	"ro": unix.MS_RDONLY, "noexec": unix.MS_NOEXEC, "nosuid": unix.MS_NOSUID, "nodev": unix.MS_NODEV,
	"noatime": unix.MS_NOATIME, "nodiratime": unix.MS_NODIRATIME, "relatime": unix.MS_RELATIME, "rw": 0,
}

// split returns the options' flags, and the options of the file system.
func split(options []string) (flags uintptr, data []string) {
	for _, option := range options {
		if flag, known := flagOf[option]; known {
			flags |= flag
		} else {
			data = append(data, option)
		}
	}
	return flags, data
}

// mounted returns what is mounted at a path, the uppermost last.
func mounted(path string) ([]mount.MountInfo, error) {
	all, err := mount.ParseMountInfo("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(m mount.MountInfo) bool { return m.MountPoint != path }), nil
}

func isMounted(path string) (bool, error) {
	found, err := mounted(path)
	return len(found) > 0, err
}

// bind mounts source at target, unless it is mounted there, and sets the flags. The target exists.
func bind(source, target string, flags uintptr) error {
	is, err := isMounted(target)
	if err != nil {
		return err
	}
	if is {
		same, err := sameFile(source, target)
		if err != nil {
			return err
		}
		if !same {
			return fmt.Errorf("something else than %s is mounted at %s", source, target)
		}
	} else if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s to %s: %w", source, target, err)
	}
	// Also after a death between both calls. Without flags too: the mount has those of its source.
	if err := unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|flags, ""); err != nil {
		return fmt.Errorf("set the flags of %s: %w", target, err)
	}
	return nil
}

func sameFile(a, b string) (bool, error) {
	infoA, err := os.Stat(a)
	if err != nil {
		return false, err
	}
	infoB, err := os.Stat(b)
	if err != nil {
		return false, err
	}
	return os.SameFile(infoA, infoB), nil
}

// maxStacked bounds the mounts that unmount removes from one path.
const maxStacked = 16

// unmount unmounts a path, if it is mounted.
func unmount(path string) error {
	for range maxStacked {
		is, err := isMounted(path)
		if err != nil || !is {
			return err
		}
		if err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
	return fmt.Errorf("more than %d mounts at %s", maxStacked, path)
}

// makeTarget makes the target of NodePublishVolume: a directory, or a file for a device.
func makeTarget(path string, block bool) error {
	if !block {
		if err := os.Mkdir(path, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|unix.O_NOFOLLOW, 0o640)
	if err != nil {
		return err
	}
	return file.Close()
}

// statistics are the bytes and inodes of a file system.
func statistics(path string) (*unix.Statfs_t, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return nil, fmt.Errorf("statfs %s: %w", path, err)
	}
	return &s, nil
}

// notOf returns the options that only a file system could have.
func notOf(options []string) string {
	_, data := split(options)
	return strings.Join(data, ",")
}
