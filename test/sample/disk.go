package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// The commands that fill a disk in ways that are hard to detect.

// dig creates nested directories, deeper than the maximum length of a path, and a file in the innermost.
func (p *program) dig(ctx context.Context, args []string) int {
	levels, err1 := strconv.Atoi(args[2])
	mib, err2 := strconv.Atoi(args[3])
	if err := errors.Join(err1, err2); err != nil {
		return p.misused(err.Error())
	}
	at, err := unix.Open(args[0], unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	for range levels {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return p.failed(err)
		}
		at, err = below(at, args[1])
	}
	if err != nil {
		return p.failed(err)
	}
	fd, err := unix.Openat(at, "bottom", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return p.failed(err)
	}
	return p.fill(ctx, os.NewFile(uintptr(fd), "bottom"), mib)
}

// below creates a directory in the open directory at, opens it, and closes at.
func below(at int, name string) (int, error) {
	err := unix.Mkdirat(at, name, 0o755)
	next := -1
	if err == nil {
		next, err = unix.Openat(at, name, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	return next, errors.Join(err, unix.Close(at))
}

// crowd creates empty files.
func (p *program) crowd(ctx context.Context, args []string) int {
	files, err := strconv.Atoi(args[1])
	if err != nil {
		return p.misused(err.Error())
	}
	for i := range files {
		if err := errors.Join(ctx.Err(), os.WriteFile(fmt.Sprintf("%s/%d", args[0], i), nil, 0o644)); err != nil {
			return p.failed(err)
		}
	}
	return exitOK
}

// grow appends to a file.
func (p *program) grow(ctx context.Context, args []string) int {
	mib, err := strconv.Atoi(args[1])
	if err != nil {
		return p.misused(err.Error())
	}
	file, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return p.failed(err)
	}
	return p.fill(ctx, file, mib)
}

func (p *program) fill(ctx context.Context, file *os.File, mib int) int {
	block := make([]byte, 1<<20)
	var err error
	for range mib {
		if err = ctx.Err(); err == nil {
			_, err = file.Write(block)
		}
		if err != nil {
			break
		}
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return p.failed(err)
	}
	return exitOK
}
