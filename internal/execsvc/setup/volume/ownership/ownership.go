package ownership

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// The permission bits that the group, and the owner with it, gets, as in the kubelet: directories can be entered, and
// pass the group on to new entries.
const (
	readable  = 0o440
	writable  = 0o660
	enterable = 0o110
	setGID    = unix.S_ISGID
	// permissions are the bits that chmod(2) sets.
	permissions = 0o7777
)

// maxDepth bounds the number of open directories. No path that a program can name is deeper.
const maxDepth = unix.PathMax / 2

// batch is the number of names of a directory that are read at once.
const batch = 256

// ErrTooDeep is returned when directories are nested deeper than any path reaches.
var ErrTooDeep = errors.New("directories are nested too deeply")

// Request is a request to change a volume to a group.
type Request struct {
	// Dir is the volume's own directory, which must not be a link. Its path is trusted, its content isn't.
	Dir string
	// Group is the pod's fsGroup.
	Group int64
	// ReadOnly is set if the group may only read.
	ReadOnly bool
	// Policy OnRootMismatch changes nothing if the volume's own directory is right. Empty and Always check every
	// file.
	Policy v1.PodFSGroupChangePolicy
}

// Mode returns a file's mode with the group's bits added. Both have the bits of chmod(2).
func Mode(mode uint32, dir, readOnly bool) uint32 {
	if readOnly {
		mode |= readable
	} else {
		mode |= writable
	}
	if dir {
		mode |= enterable | setGID
	}
	return mode
}

// Set changes the volume to the group. The volume's own directory comes last: if it is right, all is done, so
// OnRootMismatch starts again after a crash. Set returns ctx's error when ctx ends. A file that disappears meanwhile
// is no error.
func Set(ctx context.Context, r Request) error {
	fd, err := unix.Open(r.Dir, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the volume %s: %w", r.Dir, err)
	}
	root, err := look(fd)
	if err != nil {
		return errors.Join(fmt.Errorf("stat the volume %s: %w", r.Dir, err), unix.Close(fd))
	}
	if root.kind == unix.S_IFLNK {
		return errors.Join(fmt.Errorf("the volume %s is a link", r.Dir), unix.Close(fd))
	}
	if r.Policy == v1.FSGroupChangeOnRootMismatch && r.right(root) {
		return unix.Close(fd)
	}
	w := walk{Request: r, ctx: ctx, mount: root.mount}
	if err := w.entry(fd, root, 0); err != nil {
		return fmt.Errorf("change the volume %s to group %d: %w", r.Dir, r.Group, err)
	}
	return nil
}

// walk is one call of Set.
type walk struct {
	Request
	ctx   context.Context //nolint:containedctx // It is that of one call.
	mount mountID
}

// entry changes one file by its O_PATH descriptor, which it closes; a directory after its content.
func (w *walk) entry(fd int, is info, depth int) error {
	if is.kind != unix.S_IFDIR {
		return errors.Join(w.change(fd, is), unix.Close(fd))
	}
	if depth == maxDepth {
		return errors.Join(ErrTooDeep, unix.Close(fd))
	}
	// One descriptor per level is the minimum for deep directories.
	opened, err := unix.Openat(fd, ".", unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err := errors.Join(err, unix.Close(fd)); err != nil {
		return fmt.Errorf("open a directory: %w", err)
	}
	dir := os.NewFile(uintptr(opened), "directory")
	defer dir.Close()
	if err := w.content(dir, opened, depth); err != nil {
		return err
	}
	return w.change(opened, is)
}

// content changes the content of the directory.
func (w *walk) content(dir *os.File, fd, depth int) error {
	for {
		names, err := dir.Readdirnames(batch)
		for _, name := range names {
			if err := w.ctx.Err(); err != nil {
				return err
			}
			if err := w.child(fd, name, depth+1); err != nil {
				// The wrapped names form the path.
				return fmt.Errorf("%q: %w", name, err)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list a directory: %w", err)
		}
	}
}

// child changes an entry of the open directory, if it is on the volume's mount.
func (w *walk) child(parent int, name string, depth int) error {
	fd, err := unix.Openat(parent, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	is, err := look(fd)
	if err != nil {
		return errors.Join(fmt.Errorf("stat: %w", err), unix.Close(fd))
	}
	if is.mount != w.mount {
		return unix.Close(fd)
	}
	return w.entry(fd, is, depth)
}

// change changes one open file to the group.
func (w *walk) change(fd int, is info) error {
	chown, mode := int64(is.gid) != w.Group, w.mode(is)
	if chown {
		if err := unix.Fchownat(fd, "", -1, int(w.Group), unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return fmt.Errorf("chown: %w", err)
		}
	}
	// A link has no mode of its own. A chown clears the set-id bits, so the mode is set again after it.
	if is.kind == unix.S_IFLNK || !chown && mode == is.mode {
		return nil
	}
	// fchmod(2) rejects an O_PATH descriptor.
	if err := unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode); err != nil {
		return fmt.Errorf("chmod: %w", err)
	}
	return nil
}

// mode returns the file's new mode.
func (r *Request) mode(is info) uint32 { return Mode(is.mode, is.kind == unix.S_IFDIR, r.ReadOnly) }

// right reports whether the volume's own directory is as Set leaves it.
func (r *Request) right(root info) bool {
	return root.kind == unix.S_IFDIR && int64(root.gid) == r.Group && root.mode == r.mode(root)
}

// mountID identifies a mount. Kernels before 5.8 have no mount IDs; there it is the device number.
type mountID struct {
	id           uint64
	major, minor uint32
}

// info describes an open file.
type info struct {
	gid uint32
	// kind is the S_IFMT part, mode the bits of chmod(2).
	kind, mode uint32
	mount      mountID
}

func look(fd int) (info, error) {
	var st unix.Statx_t
	const mask = unix.STATX_TYPE | unix.STATX_MODE | unix.STATX_GID | unix.STATX_MNT_ID
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, mask, &st); err != nil {
		return info{}, err
	}
	i := info{
		gid: st.Gid, kind: uint32(st.Mode) & unix.S_IFMT, mode: uint32(st.Mode) & permissions,
	}
	if st.Mask&unix.STATX_MNT_ID != 0 {
		i.mount.id = st.Mnt_id
	} else {
		i.mount.major, i.mount.minor = st.Dev_major, st.Dev_minor
	}
	return i, nil
}
