package grpcserver

import (
	"errors"
	"io"
	"syscall"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/mem"
)

// ReadOnReady makes gRPC allocate a buffer only when there is data: for its own kind of connections it does so by
// itself; for others it keeps 32 KiB each, most of an idle consumer's memory. Over TLS the TLS layer reads, which
// doesn't have this method.
func (c *conn) ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		buffer := pool.Get(size)
		n, err := c.Read(*buffer)
		return buffer, n, err
	}
	r := &c.ready
	r.size, r.pool, r.buffer, r.n, r.err = size, pool, nil, 0, nil
	if r.read == nil {
		r.read = r.tryRead
	}
	if err := raw.Read(r.read); err != nil {
		return nil, 0, err
	}
	switch {
	case r.err != nil:
		return nil, 0, r.err
	case r.n == 0:
		pool.Put(r.buffer)
		return nil, 0, io.EOF
	}
	return r.buffer, r.n, nil
}

// readiness is the state of one ReadOnReady. gRPC has one reader for each connection, so it is part of the
// connection, without an allocation.
type readiness struct {
	size   int
	pool   mem.BufferPool
	buffer *[]byte
	n      int
	err    error
	read   func(fd uintptr) bool
}

// tryRead reads if there is data, and reports whether it is done.
func (r *readiness) tryRead(fd uintptr) bool {
	r.buffer = r.pool.Get(r.size)
	for {
		r.n, r.err = unix.Read(int(fd), *r.buffer) //nolint:gosec // A file descriptor is an int.
		if !errors.Is(r.err, syscall.EINTR) {
			break
		}
	}
	if r.err != nil {
		r.pool.Put(r.buffer)
		r.buffer = nil
	}
	return !errors.Is(r.err, syscall.EAGAIN)
}
