package csidriver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// backing makes the contents of volumes, and mounts them. All methods may be repeated after a death at any point.
type backing interface {
	create(v *volume) error
	remove(v *volume) error
	// grow makes it as large as v.Size.
	grow(v *volume) error
	// stage makes the volume available at path: a file system is mounted there; of a block volume, nothing is.
	stage(ctx context.Context, v *volume, path string, block bool, options []string) error
	unstage(ctx context.Context, v *volume, path string) error
	// device returns the device of a block volume that is staged.
	device(ctx context.Context, v *volume) (string, error)
	// expand makes the staged file system as large as the volume.
	expand(ctx context.Context, v *volume, block bool) error
}

// directories are volumes of Directory.
type directories struct{ store store }

func (d directories) path(v *volume) string { return filepath.Join(d.store.dir, "data", key(v.ID)) }

func (d directories) create(v *volume) error { return os.MkdirAll(d.path(v), 0o777) }

func (d directories) remove(v *volume) error { return os.RemoveAll(d.path(v)) }

func (directories) grow(*volume) error { return nil }

func (d directories) stage(_ context.Context, v *volume, path string, _ bool, options []string) error {
	flags, _ := split(options)
	return bind(d.path(v), path, flags)
}

func (directories) unstage(_ context.Context, _ *volume, path string) error { return unmount(path) }

func (directories) device(context.Context, *volume) (string, error) {
	return "", fmt.Errorf("a directory has no device")
}

func (directories) expand(context.Context, *volume, bool) error { return nil }

// images are volumes of Image.
type images struct{ store store }

func (i images) path(v *volume) string { return filepath.Join(i.store.dir, "images", key(v.ID)) }

func (i images) create(v *volume) error {
	file, err := os.OpenFile(i.path(v), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return i.grow(v)
}

func (i images) remove(v *volume) error { return absentIsFine(os.Remove(i.path(v))) }

func (i images) grow(v *volume) error {
	info, err := os.Stat(i.path(v))
	if err != nil {
		return err
	}
	if info.Size() >= v.Size {
		return nil
	}
	return os.Truncate(i.path(v), v.Size)
}

// device returns the loop device of the image, or an error if there is none.
func (i images) device(ctx context.Context, v *volume) (string, error) {
	device, err := i.find(ctx, v)
	if err == nil && device == "" {
		err = fmt.Errorf("%s has no loop device", i.path(v))
	}
	return device, err
}

// find returns the loop device of the image, or "".
func (i images) find(ctx context.Context, v *volume) (string, error) {
	all, err := i.devices(ctx, v)
	if err != nil || len(all) == 0 {
		return "", err
	}
	return all[0], nil
}

// devices returns the loop devices of the image. It has one, but for deaths at the wrong moment.
func (i images) devices(ctx context.Context, v *volume) ([]string, error) {
	output, err := run(ctx, "losetup", "--noheadings", "--output", "NAME", "--associated", i.path(v))
	return strings.Fields(output), err
}

func (i images) stage(ctx context.Context, v *volume, path string, block bool, options []string) error {
	device, err := i.find(ctx, v)
	if err != nil {
		return err
	}
	if device == "" {
		output, err := run(ctx, "losetup", "--find", "--show", i.path(v))
		if err != nil {
			return err
		}
		device = strings.TrimSpace(output)
	}
	if block {
		return nil
	}
	if !v.Formatted {
		// Nothing was ever mounted: a file system from before a death is incomplete.
		if _, err := run(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", "-E", "nodiscard", device); err != nil {
			return err
		}
		if _, err := i.store.change(v.ID, func(v *volume) error { v.Formatted = true; return nil }); err != nil {
			return err
		}
	}
	is, err := isMounted(path)
	if err != nil || is {
		return err
	}
	flags, data := split(options)
	if err := unix.Mount(device, path, "ext4", flags, strings.Join(data, ",")); err != nil {
		return fmt.Errorf("mount %s at %s: %w", device, path, err)
	}
	return nil
}

func (i images) unstage(ctx context.Context, v *volume, path string) error {
	if err := unmount(path); err != nil {
		return err
	}
	all, err := i.devices(ctx, v)
	for _, device := range all {
		if _, detachErr := run(ctx, "losetup", "--detach", device); detachErr != nil {
			err = errors.Join(err, detachErr)
		}
	}
	return err
}

func (i images) expand(ctx context.Context, v *volume, block bool) error {
	device, err := i.device(ctx, v)
	if err != nil {
		return err
	}
	if _, err := run(ctx, "losetup", "--set-capacity", device); err != nil || block {
		return err
	}
	_, err = run(ctx, "resize2fs", device)
	return err
}

// deviceSize returns the size of a block device in bytes.
func deviceSize(ctx context.Context, device string) (int64, error) {
	output, err := run(ctx, "blockdev", "--getsize64", device)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(output), 10, 64)
}

// CheckImages returns why this machine can't have volumes of Image, or nil.
func CheckImages(ctx context.Context) error {
	for _, tool := range []string{"losetup", "mkfs.ext4", "resize2fs", "blockdev"} {
		if _, err := exec.LookPath(tool); err != nil {
			return err
		}
	}
	_, err := run(ctx, "losetup", "--find")
	return err
}

// CheckResize returns why ext4 can't grow on this machine while it is mounted, or nil.
func CheckResize() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	if data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) == 0 {
		return errors.New("ext4 grows only for a process with CAP_SYS_RESOURCE")
	}
	return nil
}

// run runs a tool, and returns its output. The tool dies with the driver: otherwise an mkfs of before the death would write to a file
// system that is mounted after it.
func run(ctx context.Context, tool string, args ...string) (string, error) {
	var stdout, stderr strings.Builder
	c := exec.CommandContext(ctx, tool, args...)
	c.Stdout, c.Stderr = &stdout, &stderr
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	// The signal comes when the thread ends that has started the tool.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", tool, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
