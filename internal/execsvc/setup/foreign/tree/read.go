package tree

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
)

// read writes the archive's entries, and reads on to the end of the input. An archive without its end marker may lack files.
func (w *importer) read(ctx context.Context, in io.Reader) error {
	raw := &bounded{in: in, left: w.job.MaxBytes + maxOverhead*(w.job.MaxEntries+maxDepth)}
	archive := tar.NewReader(raw)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, tar.ErrHeader) && w.moved.Entries == 0 {
			return &RefusedError{"the input isn't a tar archive, or is a compressed one: decompress it first"}
		}
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = w.entry(h, archive)
		}
		if err != nil {
			return readError(err)
		}
	}
	// archive/tar takes an input that ends between two entries for a whole archive. It reads to the input's end only if it
	// hasn't found the two blocks of zeros with which an archive ends.
	switch {
	case raw.ended && raw.got > 0:
		return &RefusedError{"the archive isn't complete: it ends without the two blocks of zeros of a tar archive"}
	case !w.named:
		return &RefusedError{"the archive is empty"}
	}
	return readPadding(raw)
}

// readPadding reads what follows the end of an archive, which is zeros up to the end of its last record.
func readPadding(in io.Reader) error {
	buffer := make([]byte, copyPiece)
	for n := 0; n < maxPadding; {
		got, err := in.Read(buffer)
		if !isZero(buffer[:got]) {
			return &RefusedError{"the archive is followed by other data, such as a second archive: import one archive at a time"}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		n += got
	}
	return &RefusedError{fmt.Sprintf("the archive is followed by more than %d bytes of zeros, which no tar writes", maxPadding)}
}

// readError returns the error of an archive that ends early, or isn't one, as a refusal.
func readError(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, tar.ErrHeader) || errors.Is(err, tar.ErrFieldTooLong) {
		return &RefusedError{"the archive is damaged, or isn't complete: " + err.Error()}
	}
	return err
}

// bounded is a reader that fails after so many bytes: headers can be without end.
type bounded struct {
	in        io.Reader
	left, got int64
	// ended is set when the end of the input was read.
	ended bool
}

// Read implements io.Reader. It returns the end of the input alone, such that a reader that needs no more doesn't see it.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, &RefusedError{"the archive has more headers than its entries need"}
	}
	n, err := b.in.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	b.got += int64(n)
	if errors.Is(err, io.EOF) {
		if n > 0 {
			return n, nil
		}
		b.ended = true
	}
	return n, err
}
