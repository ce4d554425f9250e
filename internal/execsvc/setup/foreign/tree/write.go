package tree

import (
	"archive/tar"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// importer writes the entries of an archive below an open directory, which no other process uses.
type importer struct {
	top *os.File
	job Import
	// dirs are the attributes of the directories that the archive names. They are set at the end: a directory may not be
	// writable, and its time changes with its content.
	dirs map[string]attributes
	// dirNames is the sum of their names' bytes.
	dirNames int
	buffer   []byte
	// named is set if the archive has an entry for a file, and not only headers for all of them.
	named bool
	moved Moved
}

type attributes struct {
	mode     uint32
	uid, gid int
	mtime    time.Time
}

// attributesOf returns those of an entry. A regular file is never setuid or setgid: the volume may be on a path that other
// users of the node can reach.
func attributesOf(h *tar.Header) (attributes, error) {
	if h.Uid < 0 || h.Uid > maxUID || h.Gid < 0 || h.Gid > maxUID {
		return attributes{}, refusal(h.Name, "has the owner %d:%d", h.Uid, h.Gid)
	}
	mode := uint32(h.Mode) & 0o777 //nolint:gosec // It is masked.
	if h.Typeflag == tar.TypeDir {
		mode = uint32(h.Mode) & 0o3777 //nolint:gosec // As above.
	}
	return attributes{mode, h.Uid, h.Gid, h.ModTime}, nil
}

// entry writes one entry.
func (w *importer) entry(h *tar.Header, content io.Reader) error {
	if err := w.count(); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	w.named = true
	name, err := cleanName(h.Name)
	if err != nil {
		return err
	}
	if err := checkKind(h); err != nil {
		return err
	}
	a, err := attributesOf(h)
	if err != nil {
		return err
	}
	if name == "." {
		if h.Typeflag != tar.TypeDir {
			return refusal(h.Name, "isn't a directory")
		}
		w.dirs["."] = a
		return nil
	}
	parent, err := w.enter(path.Dir(name))
	if err != nil {
		return fmt.Errorf("write %.200q: %w", h.Name, err)
	}
	defer parent.Close()
	switch base := path.Base(name); h.Typeflag {
	case tar.TypeDir:
		err = w.dir(parent, base, name, a)
	case tar.TypeSymlink:
		err = w.symlink(parent, base, h, a)
	case tar.TypeLink:
		err = w.hardLink(parent, base, h)
	default:
		err = w.file(parent, base, h, a, content)
	}
	if errors.Is(err, unix.EEXIST) {
		return refusal(h.Name, "comes twice")
	}
	return err
}

// count counts an entry, or a directory that the archive doesn't name, for which there must be room: empty ones take it too.
func (w *importer) count() error {
	if w.moved.Entries++; w.moved.Entries > w.job.MaxEntries {
		return &RefusedError{fmt.Sprintf("the archive has more than %d files and directories", w.job.MaxEntries)}
	}
	return w.hasRoom(0)
}

// keep keeps a directory's attributes for the end.
func (w *importer) keep(name string, a attributes) error {
	if _, ok := w.dirs[name]; !ok {
		w.dirNames += len(name)
	}
	if most := cmp.Or(w.job.maxDirNames, maxDirNames); w.dirNames > most {
		return &RefusedError{fmt.Sprintf("the paths of the archive's directories have more than %d bytes: "+
			"pack the directories with long paths as a file of their own, such as a tar archive, and import that", most)}
	}
	w.dirs[name] = a
	return nil
}

// enter opens a directory below the top, element by element. It makes those that the archive doesn't name.
func (w *importer) enter(name string) (*os.File, error) {
	at, err := openDir(w.top, ".")
	if err != nil || name == "." {
		return at, err
	}
	so := ""
	for _, element := range elements(name) {
		so = path.Join(so, element)
		next, err := openDir(at, element)
		if errors.Is(err, ErrMissing) {
			if err = w.count(); err == nil {
				err = w.keep(so, attributes{mode: claimMode})
			}
			if err == nil {
				next, err = makeDir(at, element, ownMode)
			}
		}
		if err := errors.Join(err, at.Close()); err != nil {
			if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
				return nil, refusal(name, "is below something that isn't a directory: %q", so)
			}
			return nil, err
		}
		at = next
	}
	return at, nil
}

func (w *importer) dir(parent *os.File, base, name string, a attributes) error {
	// A directory may come again, or after what is in it.
	if _, ok := w.dirs[name]; !ok {
		if err := unix.Mkdirat(int(parent.Fd()), base, ownMode); err != nil {
			return err
		}
	}
	return w.keep(name, a)
}

// symlink makes a link as it is, wherever it leads: a pod can make the same one, and podstream follows none in a volume.
func (w *importer) symlink(parent *os.File, base string, h *tar.Header, a attributes) error {
	if len(h.Linkname) > maxLink || h.Linkname == "" {
		return refusal(h.Name, "is a link to a name of %d bytes", len(h.Linkname))
	}
	if strings.Contains(h.Linkname, "\x00") {
		return refusal(h.Name, "is a link to a name with a NUL")
	}
	fd := int(parent.Fd())
	if err := unix.Symlinkat(h.Linkname, fd, base); err != nil {
		return err
	}
	at, failed := utimes(a)
	return errors.Join(failed, unix.Fchownat(fd, base, a.uid, a.gid, unix.AT_SYMLINK_NOFOLLOW),
		unix.UtimesNanoAt(fd, base, at, unix.AT_SYMLINK_NOFOLLOW))
}

// hardLink gives a file of the archive another name.
func (w *importer) hardLink(parent *os.File, base string, h *tar.Header) error {
	to, err := cleanName(h.Linkname)
	if err != nil {
		return err
	}
	dir, err := w.enter(path.Dir(to))
	if err != nil {
		return err
	}
	defer dir.Close()
	st, err := statAt(dir, path.Base(to))
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return refusal(h.Name, "is another name of %.200q, which isn't a file before it", h.Linkname)
	}
	return unix.Linkat(int(dir.Fd()), path.Base(to), int(parent.Fd()), base, 0) // No link is followed.
}

func (w *importer) file(parent *os.File, base string, h *tar.Header, a attributes, content io.Reader) error {
	if h.Size < 0 || h.Size > w.job.MaxBytes-w.moved.Bytes {
		return refusal(h.Name, "has %d bytes; with it the files have more than %d", h.Size, w.job.MaxBytes)
	}
	w.moved.Bytes += h.Size
	fd, err := unix.Openat(int(parent.Fd()), base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), filepath.Join(parent.Name(), base))
	defer f.Close()
	if err := w.copy(f, content, h.Size); err != nil {
		return err
	}
	return w.setOn(f, a)
}

// copy writes a file's content. Pieces of zeros become holes.
func (w *importer) copy(f *os.File, content io.Reader, size int64) error {
	if w.buffer == nil {
		w.buffer = make([]byte, copyPiece)
	}
	for at := int64(0); at < size; {
		piece := w.buffer[:min(copyPiece, size-at)]
		if _, err := io.ReadFull(content, piece); errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		} else if err != nil {
			return err
		}
		if !isZero(piece) {
			if err := w.hasRoom(len(piece)); err != nil {
				return err
			}
			if _, err := f.WriteAt(piece, at); err != nil {
				return err
			}
		}
		at += int64(len(piece))
	}
	return f.Truncate(size)
}

// isZero reports whether all bytes are 0.
func isZero(p []byte) bool { return len(bytes.TrimLeft(p, "\x00")) == 0 }

// finish sets the attributes of the directories, the innermost first.
func (w *importer) finish() error {
	names := slices.Sorted(maps.Keys(w.dirs))
	slices.Reverse(names)
	for _, name := range names {
		if name == "." {
			continue
		}
		if err := w.setDir(name); err != nil {
			return err
		}
	}
	return w.setOn(w.top, w.dirs["."])
}

func (w *importer) setDir(name string) error {
	dir, err := w.enter(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	return w.setOn(dir, w.dirs[name])
}

// setOn completes a file or directory.
func (w *importer) setOn(f *os.File, a attributes) error {
	if err := a.setOn(f); err != nil || w.job.syncEach == nil {
		return err
	}
	if err := w.job.syncEach(f); err != nil {
		return fmt.Errorf("write the volume to disk: %w", err)
	}
	return nil
}

// setOn sets the attributes of an open file.
func (a attributes) setOn(f *os.File) error {
	fd := int(f.Fd())
	at, err := utimes(a)
	if err := errors.Join(err, unix.Fchown(fd, a.uid, a.gid), unix.Fchmod(fd, a.mode)); err != nil {
		return fmt.Errorf("set the owner and mode of %s: %w", f.Name(), err)
	}
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), at, 0); err != nil {
		return fmt.Errorf("set the time of %s: %w", f.Name(), err)
	}
	return nil
}

// utimes returns the times for utimensat. A time that the kernel can't store is now.
func utimes(a attributes) ([]unix.Timespec, error) {
	const earliest, latest = 0, 1 << 34
	if s := a.mtime.Unix(); a.mtime.IsZero() || s < earliest || s > latest {
		a.mtime = time.Now()
	}
	ts, err := unix.TimeToTimespec(a.mtime)
	return []unix.Timespec{ts, ts}, err
}
