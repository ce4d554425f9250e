package tree

import (
	"encoding/binary"
	"errors"
	"io"
)

// An archive comes to Import in frames, the last of which is empty: a pipe whose writer was killed ends as one whose writer
// is done.

// maxFrame bounds a frame.
const maxFrame = 1 << 20

var errFrame = errors.New("a frame is too large")

// Frames writes frames.
type Frames struct{ To io.Writer }

// Write writes frames with the bytes of p.
func (f Frames) Write(p []byte) (int, error) {
	for done := 0; done < len(p); {
		n := min(len(p)-done, maxFrame)
		if err := f.frame(p[done : done+n]); err != nil {
			return done, err
		}
		done += n
	}
	return len(p), nil
}

// End writes the last frame.
func (f Frames) End() error { return f.frame(nil) }

func (f Frames) frame(p []byte) error {
	//nolint:gosec // It is at most maxFrame.
	if _, err := f.To.Write(binary.BigEndian.AppendUint32(nil, uint32(len(p)))); err != nil {
		return err
	}
	_, err := f.To.Write(p)
	return err
}

// Unframe reads what Frames has written. Without the last frame it ends with io.ErrUnexpectedEOF.
type Unframe struct {
	From io.Reader
	left int
	over bool
}

// Read implements io.Reader.
func (u *Unframe) Read(p []byte) (int, error) {
	if u.over || len(p) == 0 {
		return 0, u.end()
	}
	if u.left == 0 {
		var size [4]byte
		if _, err := io.ReadFull(u.From, size[:]); err != nil {
			return 0, early(err)
		}
		n := binary.BigEndian.Uint32(size[:])
		if n > maxFrame {
			return 0, errFrame
		}
		if u.left = int(n); n == 0 {
			u.over = true
			return 0, io.EOF
		}
	}
	n, err := u.From.Read(p[:min(len(p), u.left)])
	u.left -= n
	if n > 0 {
		return n, nil
	}
	return 0, early(err)
}

func (u *Unframe) end() error {
	if u.over {
		return io.EOF
	}
	return nil
}

func early(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
