package tree

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// The bounds of an export.
const (
	maxNotes = 20
	// maxLinks bounds the files with several names whose names are remembered, and maxLinkNames the bytes of these names: other files
	// are in the archive once for each name.
	maxLinks     = 100_000
	maxLinkNames = 64 << 20
	maxLink      = 4095
)

// Export writes the directory of a claim as an archive.
type Export struct {
	Root  string `json:"root"`
	Claim string `json:"claim"`
	// MaxBytes bounds the sum of the files' sizes. Zero: no limit.
	MaxBytes int64 `json:"maxBytes,omitempty"`
}

// Moved is what an archive has.
type Moved struct {
	// Entries are files, directories and links, and Bytes the files' sizes.
	Entries int64 `json:"entries,omitempty"`
	Bytes   int64 `json:"bytes,omitempty"`
	// LeftOut counts the files that Export leaves out, and Outside the links that are absolute or lead out. Notes names the first of them.
	LeftOut int64    `json:"leftOut,omitempty"`
	Outside int64    `json:"outside,omitempty"`
	Notes   []string `json:"notes,omitempty"`
	// Left says what of the replaced content is left on disk.
	Left string `json:"left,omitempty"`
}

func (m *Moved) note(name, text string) {
	if len(m.Notes) < maxNotes {
		m.Notes = append(m.Notes, clip(fmt.Sprintf("%q %s", name, text)))
	}
}

// Do writes the archive. After an error it isn't complete.
func (e Export) Do(out io.Writer) (Moved, error) {
	p, err := openPlace(e.Root, e.Claim)
	if err != nil {
		return Moved{}, err
	}
	defer func() { _ = p.close() }()
	dir, err := p.open()
	if err != nil {
		return Moved{}, err
	}
	defer dir.Close()
	x := exporter{tar: tar.NewWriter(out), limit: e.MaxBytes, names: map[identity]string{}}
	st, err := statAt(dir, "")
	if err == nil {
		err = x.header("./", st, tar.TypeDir, "", 0)
	}
	if err == nil {
		err = x.walk(dir, "", 0)
	}
	if err == nil {
		err = x.tar.Close()
	}
	return x.moved, err
}

// exporter writes an archive.
type exporter struct {
	tar   *tar.Writer
	limit int64
	// names are those of files with several names, of namesSize bytes.
	names     map[identity]string
	namesSize int
	moved     Moved
}

func (x *exporter) walk(dir *os.File, below string, depth int) error {
	return eachName(dir, func(name string) error {
		st, err := statAt(dir, name)
		if isMissing(err) {
			return nil
		}
		if err != nil {
			return err
		}
		called := path.Join(below, name)
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			return x.dir(dir, name, called, depth)
		case unix.S_IFREG:
			return x.file(dir, name, called)
		case unix.S_IFLNK:
			return x.link(dir, name, called, st)
		default:
			x.moved.LeftOut++
			x.moved.note(called, "is a socket, a FIFO or a device, and is left out")
			return nil
		}
	})
}

func (x *exporter) dir(parent *os.File, name, called string, depth int) error {
	dir, err := openDir(parent, name)
	if isMissing(err) || x.leavesOut(called, err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	st, err := statAt(dir, "")
	if err == nil {
		err = x.header(called+"/", st, tar.TypeDir, "", 0)
	}
	if err != nil {
		return err
	}
	if depth+1 == maxDepth { // A pod must not keep its volume from being exported.
		x.moved.LeftOut++
		x.moved.note(called, fmt.Sprintf("is %d levels deep: what it may have is left out", maxDepth))
		return nil
	}
	return x.walk(dir, called, depth+1)
}

// leavesOut reports whether the error is that of one file or directory that can't be opened, and notes it. Of others, such as a
// mount, and too many open files, the export ends.
func (x *exporter) leavesOut(called string, err error) bool {
	for _, of := range []error{unix.EACCES, unix.EPERM, unix.EIO, unix.EUCLEAN, unix.EOVERFLOW, unix.ENXIO} {
		if errors.Is(err, of) {
			x.moved.LeftOut++
			x.moved.note(called, "can't be opened, and is left out: "+err.Error())
			return true
		}
	}
	return false
}

func (x *exporter) link(dir *os.File, name, called string, st *unix.Statx_t) error {
	buffer := make([]byte, maxLink+1)
	n, err := unix.Readlinkat(int(dir.Fd()), name, buffer)
	if err != nil {
		return &os.PathError{Op: "readlink", Path: filepath.Join(dir.Name(), name), Err: err}
	}
	to := string(buffer[:n])
	if leadsOut(called, to) {
		x.moved.Outside++
		x.moved.note(called, "is a link that is absolute or leads out of the volume, and is in the archive as it is")
	}
	return x.header(called, st, tar.TypeSymlink, to, 0)
}

// file writes a regular file, or a link to its first name.
func (x *exporter) file(dir *os.File, name, called string) error {
	// The file that is opened isn't a link, nor a mount, nor a FIFO that has taken its place.
	f, err := openFile(dir, name)
	if isMissing(err) || x.leavesOut(called, err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := statAt(f, "")
	if err != nil {
		return err
	}
	if first, ok := x.names[identityOf(st)]; ok && st.Nlink > 1 {
		return x.header(called, st, tar.TypeLink, first, 0)
	}
	if st.Nlink > 1 && len(x.names) < maxLinks && x.namesSize+len(called) <= maxLinkNames {
		x.names[identityOf(st)] = called
		x.namesSize += len(called)
	}
	size := int64(st.Size) //nolint:gosec // The kernel's sizes are below 8 EiB.
	if x.moved.Bytes += size; x.limit > 0 && (x.moved.Bytes > x.limit || x.moved.Bytes < 0) {
		return fmt.Errorf("%s has %d bytes; with it the files have more than %d", called, size, x.limit)
	}
	if err := x.header(called, st, tar.TypeReg, "", size); err != nil {
		return err
	}
	if n, err := io.CopyN(x.tar, f, size); errors.Is(err, io.EOF) {
		return fmt.Errorf("%s has become shorter, %d bytes instead of %d, while it was read: repeat it when no pod writes to the volume",
			called, n, size)
	} else if err != nil {
		return fmt.Errorf("pack %s: %w", called, err)
	}
	return nil
}

func (x *exporter) header(name string, st *unix.Statx_t, kind byte, to string, size int64) error {
	x.moved.Entries++
	h := &tar.Header{
		Typeflag: kind, Name: name, Linkname: to, Size: size, Mode: int64(st.Mode & 0o7777), Uid: int(st.Uid), Gid: int(st.Gid),
		ModTime: time.Unix(st.Mtime.Sec, int64(st.Mtime.Nsec)), Format: tar.FormatPAX,
	}
	if !utf8.ValidString(name) || !utf8.ValidString(to) {
		h.PAXRecords = map[string]string{"hdrcharset": "BINARY"} // By POSIX, names are UTF-8 without it.
	}
	if err := x.tar.WriteHeader(h); err != nil {
		return fmt.Errorf("pack %q: %w", name, err)
	}
	return nil
}

// leadsOut reports whether a link of that name, below a directory, may lead out of the directory.
func leadsOut(name, to string) bool {
	return path.IsAbs(to) || !filepath.IsLocal(path.Join(path.Dir(name), to)) || climbs(path.Dir(name), to)
}

// climbs reports whether an element on the way is above the top, if no element is a link: path.Join removes those.
func climbs(from, to string) bool {
	depth := 0
	if from != "." {
		depth = strings.Count(from, "/") + 1
	}
	for element := range strings.SplitSeq(to, "/") {
		switch element {
		case "", ".":
		case "..":
			depth--
		default:
			depth++
		}
		if depth < 0 {
			return true
		}
	}
	return false
}
