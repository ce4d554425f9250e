package podctl

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"

	"github.com/podstream/podstream/internal/podctl/archive"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// maxPadding bounds what a tar may write after the end of its archive: a block of the largest size in use.
const maxPadding = 1 << 20

// maxNotes is the number of files that are named of those that are left out.
const maxNotes = 20

// transfer is a copy.
type transfer struct {
	stream grpc.BidiStreamingClient[podexecv1.CopyRequest, podexecv1.CopyResponse]
	t      *tool
	// skipped counts the files that are left out.
	skipped int
	// streamErr is the error with which the stream has ended, if it has. It explains others.
	streamErr error
	// left is the rest of the last message.
	left []byte
}

// skip notes a file that is left out.
func (c *transfer) skip(name, reason string) {
	switch c.skipped++; {
	case c.skipped <= maxNotes:
		c.t.note("%s %s: it is left out", name, reason)
	case c.skipped == maxNotes+1:
		c.t.note("more files are left out")
	}
}

// opened waits until podexecd has found the container and the path's directory.
func (c *transfer) opened() (*podexecv1.CopyOpened, error) {
	for {
		m, err := c.stream.Recv()
		if err != nil {
			return nil, err
		}
		c.t.noteDefaulted(m.GetDefaulted(), "\n")
		if opened := m.GetOpened(); opened != nil {
			return opened, nil
		}
	}
}

// receive unpacks the container's archive.
func (c *transfer) receive(s archive.Source, local, base string) error {
	s.Reader = c
	if err := archive.Unpack(s, local, base); err != nil {
		return fmt.Errorf("copy to %s: %w", local, err)
	}
	// The end of the stream has tar's result.
	n, err := io.Copy(io.Discard, io.LimitReader(c, maxPadding))
	if err == nil && n == maxPadding {
		err = errors.New("the archive has more after its end than a tar writes")
	}
	return err
}

// Read implements io.Reader: it reads the container's archive.
func (c *transfer) Read(p []byte) (int, error) {
	for len(c.left) == 0 {
		m, err := c.stream.Recv()
		if errors.Is(err, io.EOF) {
			return 0, io.EOF
		}
		if err != nil {
			c.streamErr = err
			return 0, err
		}
		c.left = m.GetData()
	}
	n := copy(p, c.left)
	c.left = c.left[n:]
	return n, nil
}

// send packs a file or directory for the container, and waits until it is extracted.
func (c *transfer) send(local string, o archive.Options) error {
	pieces := bufio.NewWriterSize(c, maxPiece)
	err := archive.Pack(pieces, local, o)
	if err == nil {
		err = pieces.Flush()
	}
	if err != nil {
		return err // Without its end, podexecd takes the archive for what it is: a part.
	}
	// A tar that has found the archive's own end may have ended already.
	_ = c.stream.Send(&podexecv1.CopyRequest{Message: &podexecv1.CopyRequest_DataClosed{DataClosed: true}})
	if _, err := c.stream.Recv(); !errors.Is(err, io.EOF) {
		c.streamErr = err
	}
	return nil
}

// errEarly is the error of a tar that ends well before the end of the archive.
var errEarly = errors.New("tar in the container ended before the end of the archive")

// Write implements io.Writer: it sends a piece of the archive.
func (c *transfer) Write(p []byte) (int, error) {
	for sent := 0; sent < len(p); {
		piece := append([]byte(nil), p[sent:min(len(p), sent+maxPiece)]...) // A message that was sent must not be changed.
		err := c.stream.Send(&podexecv1.CopyRequest{Message: &podexecv1.CopyRequest_Data{Data: piece}})
		if errors.Is(err, io.EOF) {
			_, err = c.stream.Recv()
		}
		if errors.Is(err, io.EOF) {
			return sent, errEarly
		}
		if err != nil {
			c.streamErr = err
			return sent, err
		}
		sent += len(piece)
	}
	return len(p), nil
}
