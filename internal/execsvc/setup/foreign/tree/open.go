package tree

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/openfile"
)

const (
	// incomplete is the directory in the root of all that is being made or removed. No namespace has such a name.
	incomplete = ".incomplete"
	// unsynced ends the names in it that Sweep leaves out: see ErrUnsynced.
	unsynced = ".unsynced"
	// maxDepth bounds the depth of a directory's content. Each level takes a descriptor.
	maxDepth = 512
	// listPiece is how many names of a directory are in memory at once.
	listPiece = 256

	rootMode, ownMode, claimMode = 0o755, 0o700, 0o755
)

var (
	// ErrMissing is the error of a directory that doesn't exist.
	ErrMissing = errors.New("the directory doesn't exist")
	// ErrMounted is the error of a directory in which something is mounted.
	ErrMounted = errors.New("a file system is mounted there")
	// errTooDeep is the error of a directory whose content is too deep.
	errTooDeep = fmt.Errorf("its directories are more than %d levels deep", maxDepth)
)

// place is the directory of a claim, as its open parent and its name.
type place struct {
	root, parent *os.File
	path, name   string
}

// openPlace opens the parent of root/claim. claim is NAMESPACE/NAME, which the caller has checked.
func openPlace(root, claim string) (*place, error) {
	namespace, name := filepath.Split(claim)
	p := &place{path: filepath.Join(root, claim), name: name}
	var err error
	if p.root, err = openRoot(root); err != nil {
		return nil, err
	}
	if p.parent, err = openDir(p.root, filepath.Clean(namespace)); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// open opens the directory itself.
func (p *place) open() (*os.File, error) { return openDir(p.parent, p.name) }

func (p *place) close() error {
	var errs []error
	for _, f := range []*os.File{p.parent, p.root} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

func openRoot(root string) (*os.File, error) {
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil, fmt.Errorf("%s: %w", root, ErrMissing)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: root, Err: err}
	}
	return os.NewFile(uintptr(fd), root), nil
}

// openat2 is the system call; tests replace it with that of an old kernel.
var openat2 = unix.Openat2

// openDir opens a directory in an open one. It follows no link, and enters no mount: ErrMounted. ErrMissing: there is none.
func openDir(parent *os.File, name string) (*os.File, error) {
	path := filepath.Join(parent.Name(), name)
	flags := unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK
	fd, err := openat2(int(parent.Fd()), name, &unix.OpenHow{
		Flags: uint64(flags), Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS,
	})
	// Linux before 5.6 lacks the call, and a seccomp profile that doesn't list it forbids it.
	stepwise := errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM)
	if stepwise {
		fd, err = unix.Openat(int(parent.Fd()), name, flags, 0)
	}
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, fmt.Errorf("%s: %w", path, ErrMissing)
	case errors.Is(err, unix.EXDEV):
		return nil, fmt.Errorf("%s: %w", path, ErrMounted)
	case err != nil:
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	dir := os.NewFile(uintptr(fd), path)
	if !stepwise {
		return dir, nil
	}
	if err := checkMount(parent, fd, path); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}

// checkMount returns ErrMounted if an open file, of that path, is on another mount than its directory.
func checkMount(parent *os.File, fd int, path string) error {
	on, err := openfile.Mount(fd)
	above, errAbove := openfile.Mount(int(parent.Fd()))
	if err = errors.Join(err, errAbove); err == nil && on != above {
		err = fmt.Errorf("%s: %w", path, ErrMounted)
	}
	return err
}

// openFile opens a regular file in an open directory, as openDir does. It waits for no writer of a FIFO.
func openFile(dir *os.File, name string) (*os.File, error) {
	path := filepath.Join(dir.Name(), name)
	flags := unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := openat2(int(dir.Fd()), name, &unix.OpenHow{
		Flags: uint64(flags), Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS,
	})
	stepwise := errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM)
	if stepwise {
		fd, err = unix.Openat(int(dir.Fd()), name, flags, 0)
	}
	switch {
	case errors.Is(err, unix.EXDEV):
		return nil, fmt.Errorf("%s: %w", path, ErrMounted)
	case err != nil:
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	if stepwise {
		if err := checkMount(dir, fd, path); err != nil {
			return nil, err
		}
	}
	return openfile.Reopen(fd, path, unix.O_RDONLY)
}

// makeDir makes a directory in an open one, unless it exists, and opens it.
func makeDir(parent *os.File, name string, mode uint32) (*os.File, error) {
	made := true
	switch err := unix.Mkdirat(int(parent.Fd()), name, mode); {
	case errors.Is(err, unix.EEXIST):
		made = false
	case err != nil:
		return nil, &os.PathError{Op: "mkdir", Path: filepath.Join(parent.Name(), name), Err: err}
	}
	dir, err := openDir(parent, name)
	if err != nil || !made {
		return dir, err
	}
	// The kernel takes the bits of the umask away.
	if err := errors.Join(unix.Fchmod(int(dir.Fd()), mode), parent.Sync()); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}

// eachName calls do for each name in an open directory. Names that are added meanwhile may be left out.
func eachName(dir *os.File, do func(name string) error) error {
	for {
		names, err := dir.Readdirnames(listPiece)
		for _, name := range names {
			if err := do(name); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", dir.Name(), err)
		}
	}
}

// statAt stats a name in an open directory, and not what a link leads to. It mounts nothing.
func statAt(dir *os.File, name string) (*unix.Statx_t, error) {
	const mask = unix.STATX_BASIC_STATS | unix.STATX_BTIME
	flags := unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	var st unix.Statx_t
	if err := unix.Statx(int(dir.Fd()), name, flags, mask, &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: filepath.Join(dir.Name(), name), Err: err}
	}
	return &st, nil
}

// identity is that of a file on the node. A number alone is that of another file once the file is gone, and of another one in
// each subvolume of btrfs.
type identity struct {
	major, minor uint32
	inode        uint64
	born         unix.StatxTimestamp
}

func identityOf(st *unix.Statx_t) identity {
	return identity{st.Dev_major, st.Dev_minor, st.Ino, st.Btime}
}

func isMissing(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, ErrMissing) }

func isDir(st *unix.Statx_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFDIR }
