package openfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// ReadGiven is Read for a file on the program's command line: it may also be a pipe, as the shell's <(command) and
// /dev/fd/N are. A pipe is read until its writers close it, while ctx lasts. One that has no writer and no data is
// ErrNoData. piped reports whether it is a pipe, which can be read only once.
func ReadGiven(ctx context.Context, path string, limit int64) (data []byte, piped bool, err error) {
	fd, err := lookup(unix.AT_FDCWD, path, 0)
	if err != nil {
		return nil, false, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	mode, err := statOf(fd, path)
	if err != nil {
		return nil, false, err
	}
	piped = mode&fs.ModeNamedPipe != 0
	var f *os.File
	if piped {
		f, err = reopenPipe(fd, path)
	} else {
		f, err = Reopen(fd, path, unix.O_RDONLY)
	}
	if err != nil {
		return nil, piped, err
	}
	defer f.Close()
	if piped {
		data, err = readPipe(ctx, f, limit)
	} else {
		data, err = ReadAll(ctx, f, limit)
	}
	if err != nil {
		return nil, piped, fmt.Errorf("read %s: %w", path, err)
	}
	return data, piped, nil
}

// reopenPipe opens the pipe that the descriptor refers to. It doesn't wait for a writer.
func reopenPipe(fd int, path string) (*os.File, error) {
	opened, err := again(func() (int, error) {
		return unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(opened), path), nil
}

// readPipe reads a pipe to its end.
func readPipe(ctx context.Context, f *os.File, limit int64) ([]byte, error) {
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	case int64(len(data)) > limit:
		return nil, &SizeError{Size: int64(len(data)), Limit: limit}
	case len(data) == 0:
		return nil, ErrNoData
	}
	return data, nil
}
