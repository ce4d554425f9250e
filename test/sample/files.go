package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
)

// The commands that work on a file. Most of them are for volumes that containers share.

func (p *program) write(_ context.Context, args []string) int {
	if err := os.WriteFile(args[0], []byte(args[1]), 0o644); err != nil {
		return p.failed(err)
	}
	return exitOK
}

func (p *program) append(_ context.Context, args []string) int {
	if err := appendLine(args[0], args[1]); err != nil {
		return p.failed(err)
	}
	return exitOK
}

// appendLine appends a line in one write, so that lines of several containers don't mix.
func appendLine(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text + "\n")
	return errors.Join(err, file.Close())
}

func (p *program) cat(_ context.Context, args []string) int {
	content, err := os.ReadFile(args[0])
	if err != nil {
		return p.failed(err)
	}
	if _, err := p.stdout.Write(content); err != nil {
		return p.failed(err)
	}
	return exitOK
}

func (p *program) exists(_ context.Context, args []string) int {
	if _, err := os.Stat(args[0]); err != nil {
		return p.failed(err)
	}
	return exitOK
}

func (p *program) remove(_ context.Context, args []string) int {
	if err := os.Remove(args[0]); err != nil {
		return p.failed(err)
	}
	return exitOK
}

func (p *program) link(_ context.Context, args []string) int {
	if err := os.Symlink(args[0], args[1]); err != nil {
		return p.failed(err)
	}
	return exitOK
}

func (p *program) failOnce(_ context.Context, args []string) int {
	code, err := parseCode(args[1])
	if err != nil {
		return p.misused("fail-once: " + err.Error())
	}
	file, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return exitOK
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		return p.failed(err)
	}
	return code
}

func (p *program) message(_ context.Context, args []string) int {
	code, err := parseCode(args[2])
	if err != nil {
		return p.misused("message: " + err.Error())
	}
	if err := os.WriteFile(args[0], []byte(args[1]), 0o644); err != nil {
		return p.failed(err)
	}
	return code
}
