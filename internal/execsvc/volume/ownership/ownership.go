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

// What the group gets, and the owner with it, as in the kubelet: directories can be entered, and hand the group on to what is
// made in them.
const (
	readable  = 0o440
	writable  = 0o660
	enterable = 0o110
	setGID    = unix.S_ISGID
	// permissions are the bits that chmod(2) sets.
	permissions = 0o7777
)

// maxDepth bounds how many directories are open at once. No path that a program can name is deeper.
const maxDepth = unix.PathMax / 2

// batch is how many names of a directory are read at once.
const batch = 256

// ErrTooDeep is when directories lie in each other deeper than any path reaches.
var ErrTooDeep = errors.New("directories lie too deep in each other")

// Request says what of a volume is given to whom.
type Request struct {
	// Dir is the volume's own directory; it can't be a link. The path to it is trusted, what is in it isn't.
	Dir string
	// Group is the pod's fsGroup.
	Group int64
	// ReadOnly is set where the group may only read.
	ReadOnly bool
	// Policy OnRootMismatch leaves all as it is if the volume's own directory is as it should be. Empty and Always look at every
	// file.
	Policy v1.PodFSGroupChangePolicy
}

// Mode is what a file's mode becomes: mode with what the group gets added. Both have the bits of chmod(2).
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

// Set gives the volume to the group. The volume's own directory comes last: so, if it is right, all has been done, and OnRootMismatch
// begins again after a crash. It ends early, with ctx's error, when ctx does. A file that goes meanwhile is no error.
func Set(ctx context.Context, r Request) error {
	fd, err := unix.Open(r.Dir, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the volume %s: %w", r.Dir, err)
	}
	root, err := look(fd)
	if err != nil {
		return errors.Join(fmt.Errorf("look at the volume %s: %w", r.Dir, err), unix.Close(fd))
	}
	if root.kind == unix.S_IFLNK {
		return errors.Join(fmt.Errorf("the volume %s is a link", r.Dir), unix.Close(fd))
	}
	if r.Policy == v1.FSGroupChangeOnRootMismatch && r.right(root) {
		return unix.Close(fd)
	}
	w := walk{Request: r, ctx: ctx, mount: root.mount}
	if err := w.entry(fd, root, 0); err != nil {
		return fmt.Errorf("give the volume %s to group %d: %w", r.Dir, r.Group, err)
	}
	return nil
}

// walk is one call of Set.
type walk struct {
	Request
	ctx   context.Context //nolint:containedctx // It is that of one call.
	mount mountID
}

// entry changes one file by its O_PATH descriptor, which it closes; a directory after all that is in it.
func (w *walk) entry(fd int, is info, depth int) error {
	if is.kind != unix.S_IFDIR {
		return errors.Join(w.change(fd, is), unix.Close(fd))
	}
	if depth == maxDepth {
		return errors.Join(ErrTooDeep, unix.Close(fd))
	}
	// One descriptor a level: who is deep has no more of them open than he must.
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

// content changes all that is in the directory.
func (w *walk) content(dir *os.File, fd, depth int) error {
	for {
		names, err := dir.Readdirnames(batch)
		for _, name := range names {
			if err := w.ctx.Err(); err != nil {
				return err
			}
			if err := w.child(fd, name, depth+1); err != nil {
				// The names add up to the path.
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

// child changes what has that name in the open directory, if it is on the volume's mount.
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
		return errors.Join(fmt.Errorf("look: %w", err), unix.Close(fd))
	}
	if is.mount != w.mount {
		return unix.Close(fd)
	}
	return w.entry(fd, is, depth)
}

// change gives one open file to the group.
func (w *walk) change(fd int, is info) error {
	chown, mode := int64(is.gid) != w.Group, w.mode(is)
	if chown {
		if err := unix.Fchownat(fd, "", -1, int(w.Group), unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return fmt.Errorf("chown: %w", err)
		}
	}
	// A link has no mode of its own. A chown takes the set-id bits off, so the mode is set again after it.
	if is.kind == unix.S_IFLNK || !chown && mode == is.mode {
		return nil
	}
	// fchmod(2) takes no O_PATH descriptor.
	if err := unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode); err != nil {
		return fmt.Errorf("chmod: %w", err)
	}
	return nil
}

// mode is what the file's mode becomes.
func (r *Request) mode(is info) uint32 { return Mode(is.mode, is.kind == unix.S_IFDIR, r.ReadOnly) }

// right tells whether the volume's own directory is as Set leaves it.
func (r *Request) right(root info) bool {
	return root.kind == unix.S_IFDIR && int64(root.gid) == r.Group && root.mode == r.mode(root)
}

// mountID tells mounts apart. Kernels before 5.8 have no number for them; there it is the file system's.
type mountID struct {
	id           uint64
	major, minor uint32
}

// info is what is known of an open file.
type info struct {
	gid uint32
	// kind is its S_IFMT part, mode the bits of chmod(2).
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
