package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/kernelversion"
)

// The bounds of an import.
const (
	// maxOverhead is what an archive may have beside its files for each entry.
	maxOverhead = 16 << 10
	// maxPadding is what may follow the end of an archive: a block of the largest size in use.
	maxPadding = 1 << 20
	// maxDirNames bounds the bytes of the directories' names, which are in memory until their attributes are set.
	maxDirNames = 256 << 20
	// reserve is the part of the file system's size, and of its inodes, that an import leaves available: 1/reserve.
	reserve = 20
	// copyPiece is how much is written at once. A piece of zeros becomes a hole.
	copyPiece = 64 << 10
	maxUID    = 1<<32 - 2
)

var (
	// ErrNotEmpty is the error of an import over a directory with content.
	ErrNotEmpty = errors.New("the volume isn't empty")
	// ErrUnsynced is the error of an import after which the directory has either content as a whole, and after a crash of the
	// machine may have the other one. Neither may be removed.
	ErrUnsynced = errors.New("the disk didn't confirm which content the volume has")
)

// Import makes an archive the directory of a claim.
type Import struct {
	Root  string `json:"root"`
	Claim string `json:"claim"`
	// As is the name that the directory has until it is complete. No other job uses it.
	As string `json:"as"`
	// Replace has the content of the directory removed, if there is any.
	Replace bool `json:"replace,omitempty"`
	// Exists has the import refused if the directory is missing: it was created, so the file system that has it isn't mounted.
	Exists bool `json:"exists,omitempty"`
	// MaxBytes and MaxEntries bound the archive.
	MaxBytes   int64 `json:"maxBytes"`
	MaxEntries int64 `json:"maxEntries"`

	// maxDirNames is less than the constant in tests. Zero: the constant.
	maxDirNames int
	// sync replaces syncAll in tests.
	sync func(dirs ...*os.File) error
	// syncEach syncs each file and directory, before syncfs. Nil: that of the kernel.
	syncEach func(*os.File) error
}

// syncEach is nil if syncfs reports that a file couldn't be written to disk, which it does since Linux 5.8.
func syncEach() func(*os.File) error {
	if kernelversion.Before(5, 8) {
		return (*os.File).Sync
	}
	return nil
}

// Do reads an archive to its end, and has it take the directory's place. After an error, nothing has changed, but for ErrUnsynced.
// What it has replaced is left under the name As, for a Sweep: the removal may take long, and the import is complete before it.
func (i Import) Do(ctx context.Context, in io.Reader) (Moved, error) {
	if i.Exists {
		if err := i.check(); err != nil { // It doesn't create --volume-dir either.
			return Moved{}, err
		}
	}
	base, err := makeRoot(i.Root)
	if err != nil {
		return Moved{}, err
	}
	defer base.Close()
	if err := i.check(); err != nil {
		return Moved{}, err
	}
	bin, err := makeDir(base, incomplete, ownMode)
	if err != nil {
		return Moved{}, err
	}
	defer bin.Close()
	moved, err := i.unpack(ctx, bin, in)
	if err == nil {
		err = i.commit(base, bin)
	}
	switch {
	case errors.Is(err, ErrUnsynced):
		// Each content may be the one that a crash leaves in place, so both stay. Sweep leaves this name out.
		return Moved{}, errors.Join(err, unix.Renameat2(int(bin.Fd()), i.As, int(bin.Fd()), i.As+unsynced, unix.RENAME_NOREPLACE))
	case err != nil:
		return Moved{}, errors.Join(err, removeAll(bin, i.As)) // It isn't complete.
	}
	return moved, nil
}

func makeRoot(root string) (*os.File, error) {
	if err := os.MkdirAll(root, rootMode); err != nil {
		return nil, fmt.Errorf("create --volume-dir: %w", err)
	}
	return openRoot(root)
}

// check returns an error if the directory has content, or can't be replaced. A missing one is fine, unless it must exist.
func (i Import) check() error {
	p, err := openPlace(i.Root, i.Claim)
	if err != nil {
		return i.missing(err)
	}
	defer func() { _ = p.close() }()
	dir, err := p.open()
	if err != nil {
		return i.missing(err)
	}
	defer dir.Close()
	if err := checkMounts(dir); err != nil {
		return err
	}
	if i.Replace {
		return nil
	}
	switch names, err := dir.Readdirnames(1); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return fmt.Errorf("list %s: %w", p.path, err)
	default:
		return fmt.Errorf("%s has %.100q: %w", p.path, names[0], ErrNotEmpty)
	}
}

func (i Import) missing(err error) error {
	switch {
	case !errors.Is(err, ErrMissing):
		return err
	case i.Exists:
		return fmt.Errorf("%w, and it existed before: mount the file system that has it, or restore it; "+
			"if the data is lost, create an empty directory there", err)
	}
	return nil
}

// unpack writes the archive to bin/As, to disk.
func (i Import) unpack(ctx context.Context, bin *os.File, in io.Reader) (Moved, error) {
	if err := unix.Mkdirat(int(bin.Fd()), i.As, ownMode); err != nil {
		return Moved{}, &os.PathError{Op: "mkdir", Path: filepath.Join(bin.Name(), i.As), Err: err}
	}
	top, err := openDir(bin, i.As)
	if err != nil {
		return Moved{}, err
	}
	defer top.Close()
	if i.syncEach == nil {
		i.syncEach = syncEach()
	}
	w := &importer{top: top, job: i, dirs: map[string]attributes{".": {mode: claimMode}}}
	if err := w.read(ctx, in); err != nil {
		return Moved{}, err
	}
	if err := w.finish(); err != nil {
		return Moved{}, err
	}
	if err := unix.Syncfs(int(top.Fd())); err != nil {
		return Moved{}, fmt.Errorf("write the volume to disk: %w", err)
	}
	return w.moved, nil
}

// commit has bin/As take the place of the directory, which then is bin/As, if it existed.
func (i Import) commit(base, bin *os.File) error {
	namespace, name := filepath.Split(i.Claim)
	parent, err := makeDir(base, filepath.Clean(namespace), claimMode)
	if err != nil {
		return err
	}
	defer parent.Close()
	if err := i.check(); err != nil {
		return err
	}
	flags := uint(unix.RENAME_NOREPLACE)
	if dir, err := openDir(parent, name); err == nil {
		_ = dir.Close()
		flags = unix.RENAME_EXCHANGE
	} else if !isMissing(err) {
		return err
	}
	if err := unix.Renameat2(int(bin.Fd()), i.As, int(parent.Fd()), name, flags); err != nil {
		return fmt.Errorf("rename the volume to %s: %w", filepath.Join(i.Root, i.Claim), err)
	}
	if err := i.syncAll(parent, bin); err != nil {
		return i.undo(parent, bin, name, flags, fmt.Errorf("sync %s after its replacement: %w", filepath.Join(i.Root, i.Claim), err))
	}
	return nil
}

// undo reverses the rename of commit, which isn't certain to be on disk, and returns the error.
func (i Import) undo(parent, bin *os.File, name string, flags uint, err error) error {
	if undoErr := unix.Renameat2(int(parent.Fd()), name, int(bin.Fd()), i.As, flags); undoErr != nil {
		return fmt.Errorf("%w; it has the archive's content: it can't be renamed back: %w; %w", err, undoErr, ErrUnsynced)
	}
	if syncErr := i.syncAll(parent, bin); syncErr != nil {
		return fmt.Errorf("%w; %w", err, ErrUnsynced)
	}
	return err
}

func (i Import) syncAll(dirs ...*os.File) error {
	if i.sync != nil {
		return i.sync(dirs...)
	}
	var errs []error
	for _, dir := range dirs {
		errs = append(errs, dir.Sync())
	}
	return errors.Join(errs...)
}
