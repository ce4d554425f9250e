package archive

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"math"
)

// maxOverhead is what an archive may have beside its files, for each of Limits.MaxEntries: a header, its padding, and a
// long name. The reader has a bound of 1 MiB for a single header.
const maxOverhead = 16 << 10

// Source is an archive that a container makes.
type Source struct {
	// Reader has the archive.
	Reader io.Reader
	// Name is the first element of each entry's name, or ".".
	Name   string
	Limits Limits
	// Skipped is called for each entry that isn't written. reason continues the sentence that begins with the name.
	Skipped func(name, reason string)
}

// Unpack writes the files of an archive to the path, as `kubectl cp` does: a file to the path, or into it under the
// name base if it is an existing directory; and what is below a directory to below the path, which is made if it
// doesn't exist. The directory that has the path must exist. What was written stays if Unpack fails later.
func Unpack(s Source, path, base string) error {
	t := newTree(path, base)
	return errors.Join(unpack(s, &verifier{name: s.Name, limits: s.Limits}, t), t.close())
}

// writer writes entries that were verified.
type writer interface {
	// dir makes a directory. file writes a file, whose content is r's, to its end. An error that is a *skipped concerns
	// one entry only.
	dir(e entry) error
	file(e entry, r io.Reader) error
	// other writes an entry of another kind. No product's writer can.
	other(e entry) error
}

func unpack(s Source, v *verifier, w writer) error {
	raw := &bounded{reader: s.Reader, left: s.Limits.archive(), off: v.off[checkBytes]}
	archive := tar.NewReader(raw)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read the archive: %w", err)
		}
		e, err := v.verify(h)
		if err == nil {
			err = write(w, e, archive)
		}
		var one *skipped
		switch {
		case err == nil, errors.Is(err, errNoEntry):
		case errors.As(err, &one):
			s.Skipped(one.name, one.reason)
		default:
			return err
		}
	}
	if !v.started {
		return errors.New("the archive is empty")
	}
	return nil
}

func write(w writer, e entry, r io.Reader) error {
	switch {
	case e.dir:
		return w.dir(e)
	case kindOf(e.header.Typeflag) == "":
		return w.file(e, r)
	}
	return w.other(e)
}

// archive returns the maximum length of an archive within the limits.
func (l Limits) archive() int64 {
	const extra = 64 // headers of the whole archive
	if int64(l.MaxEntries) > (math.MaxInt64-l.MaxBytes)/maxOverhead-extra {
		return math.MaxInt64
	}
	return l.MaxBytes + maxOverhead*(int64(l.MaxEntries)+extra)
}

// errTooLong is the error of an archive that has more beside its files than the limits allow.
var errTooLong = errors.New("the archive has more headers than its entries need")

// bounded is a reader that ends with an error after so many bytes: an archive may have headers without end before an
// entry.
type bounded struct {
	reader io.Reader
	left   int64
	off    bool
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 && !b.off {
		return 0, errTooLong
	}
	if int64(len(p)) > b.left && !b.off {
		p = p[:b.left]
	}
	n, err := b.reader.Read(p)
	b.left -= int64(n)
	return n, err
}
