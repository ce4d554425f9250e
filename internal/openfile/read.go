package openfile

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// chunk is how much is read between two looks at the context.
const chunk = 256 << 10

// Read returns the content of the regular file that path names: Open and ReadAll.
func Read(ctx context.Context, path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := ReadAll(ctx, f, limit)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return data, nil
}

// ReadAll reads the rest of f, which Open returned. More than limit bytes are a SizeError, and nothing is read if the
// file's size says so at once. A file that has no data now is ErrNoData. When ctx ends, the error is its cause.
func ReadAll(ctx context.Context, f *os.File, limit int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > limit {
		return nil, &SizeError{Size: info.Size(), Limit: limit}
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	data := make([]byte, 0, info.Size()+1)
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		free := data[len(data):min(cap(data), len(data)+chunk)]
		var n int
		var readErr error
		err := conn.Read(func(fd uintptr) bool {
			n, readErr = again(func() (int, error) { return unix.Read(int(fd), free) })
			return true // Also after EAGAIN: the poller would wait for data.
		})
		switch {
		case err != nil:
			return nil, err
		case errors.Is(readErr, unix.EAGAIN):
			return nil, ErrNoData
		case readErr != nil:
			return nil, readErr
		case n == 0:
			return data, nil
		}
		data = data[:len(data)+n]
		if int64(len(data)) > limit {
			return nil, &SizeError{Size: max(int64(len(data)), info.Size()), Limit: limit}
		}
	}
}
