package subpath

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	"k8s.io/mount-utils"
)

// targetsName is the directory of a pod's targets.
const targetsName = "volume-subpaths"

// The modes of the targets and the directories around them: only root can read them.
const (
	dirMode  = 0o750
	fileMode = 0o640
)

// Request is a request to bind a subPath.
type Request struct {
	// Root is the volume's path on the node. Links in this path are followed; the volume's content isn't trusted.
	Root string
	// SubPath is relative to Root, and without "..". Empty or "." is the volume itself.
	SubPath string
	// ReadOnly makes the mount itself read-only, not only the container's. It must be false if the runtime relabels
	// the files for SELinux.
	ReadOnly bool
	// Target is <pods>/<uid>/volume-subpaths/<volume>/<container>/<index>. It is created as needed, as a directory or
	// a file like the subPath. Links are followed up to <uid> only.
	Target string
	// Mounter unmounts wrong mounts at Target. Nil means the node's own.
	Mounter mount.Interface
}

// Prepare binds the subPath over the target, and returns the target. It creates a missing subPath as a directory. It
// keeps a target that is already correct, as after a restart, and unmounts and recreates any other. An error for a
// path outside of the volume wraps ErrOutside. After an error or a crash, CleanUp removes what was made.
func Prepare(ctx context.Context, req Request) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	names, err := parse(req.SubPath)
	if err != nil {
		return "", err
	}
	r, err := openRoot(req.Root)
	if err != nil {
		return "", err
	}
	defer r.close()
	source, err := r.open(names, true)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(source) }()

	t, err := openTarget(req.Target)
	if err != nil {
		return "", fmt.Errorf("make the directory of subpath targets: %w", err)
	}
	defer t.close()
	if t.shows(source, req.ReadOnly) == nil {
		return req.Target, nil
	}
	if err := CleanUp(req.Target, req.Mounter); err != nil {
		return "", fmt.Errorf("remove a former subpath target: %w", err)
	}
	if err := t.bind(source, req.ReadOnly); err != nil {
		return "", errors.Join(fmt.Errorf("bind subpath %q: %w", req.SubPath, err), CleanUp(req.Target, req.Mounter))
	}
	return req.Target, nil
}

// target is the mount point of a bind mount.
type target struct {
	// dir is the open parent directory, the container's.
	dir  int
	name string
}

// openTarget creates the parent directories of the target and opens the last one.
func openTarget(path string) (*target, error) {
	path = filepath.Clean(path)
	container := filepath.Dir(path)
	volume := filepath.Dir(container)
	targets := filepath.Dir(volume)
	if !filepath.IsAbs(path) || filepath.Base(targets) != targetsName {
		return nil, fmt.Errorf("%q isn't <pod>/%s/<volume>/<container>/<index>", path, targetsName)
	}
	podDir := filepath.Dir(targets)
	if err := os.MkdirAll(podDir, dirMode); err != nil {
		return nil, err
	}
	pod, err := unix.Open(podDir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: podDir, Err: err}
	}
	defer func() { _ = unix.Close(pod) }()
	dir, err := makeDirs(pod, []string{targetsName, filepath.Base(volume), filepath.Base(container)}, dirMode)
	if err != nil {
		return nil, &os.PathError{Op: "mkdir", Path: container, Err: err}
	}
	return &target{dir: dir, name: filepath.Base(path)}, nil
}

func (t *target) close() { _ = unix.Close(t.dir) }

// open opens the target, or the topmost mount on it.
func (t *target) open() (int, error) {
	return unix.Openat(t.dir, t.name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// shows returns nil if source is mounted at the target with the right options.
func (t *target) shows(source int, readOnly bool) error {
	fd, err := t.open()
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	mounted, err := isMounted(t.dir, fd)
	if err != nil {
		return err
	}
	if !mounted {
		return errors.New("nothing is mounted")
	}
	var want, got unix.Stat_t
	if err := errors.Join(unix.Fstat(source, &want), unix.Fstat(fd, &got)); err != nil {
		return err
	}
	if want.Dev != got.Dev || want.Ino != got.Ino {
		return errors.New("something else is mounted")
	}
	wantFlags, err := mountFlags(source)
	if err != nil {
		return err
	}
	gotFlags, err := mountFlags(fd)
	if err != nil {
		return err
	}
	if readOnly {
		wantFlags |= unix.MS_RDONLY
	}
	if wantFlags != gotFlags {
		return errors.New("it is mounted with other options")
	}
	return nil
}

// bind creates the target, which must not exist, and binds source over it. Both are named by descriptors: no path is
// resolved.
func (t *target) bind(source int, readOnly bool) error {
	if err := t.make(source); err != nil {
		return fmt.Errorf("make the target: %w", err)
	}
	over, err := t.open()
	if err != nil {
		return fmt.Errorf("open the target: %w", err)
	}
	defer func() { _ = unix.Close(over) }()
	if err := unix.Mount(byDescriptor(source), byDescriptor(over), "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	if readOnly {
		if err := t.protect(); err != nil {
			return fmt.Errorf("make the mount read-only: %w", err)
		}
	}
	if err := t.shows(source, readOnly); err != nil {
		return fmt.Errorf("verify the mount: %w", err)
	}
	return nil
}

// make creates a directory for a directory, and a file for anything else: a bound FIFO, socket or device keeps its
// type.
func (t *target) make(source int) error {
	var st unix.Stat_t
	if err := unix.Fstat(source, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return unix.Mkdirat(t.dir, t.name, dirMode)
	}
	fd, err := unix.Openat(t.dir, t.name, unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_WRONLY|unix.O_CLOEXEC, fileMode)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// protect makes the mount at the target read-only, and keeps its other options.
func (t *target) protect() error {
	fd, err := t.open()
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	flags, err := mountFlags(fd)
	if err != nil {
		return err
	}
	return unix.Mount("", byDescriptor(fd), "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|flags, "")
}
