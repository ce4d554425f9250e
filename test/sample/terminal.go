package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

func (p *program) copyStdin(ctx context.Context, _ []string) int {
	copied := make(chan error, 1)
	go func() { // it stays if a signal comes first, because a read can't be interrupted
		_, err := io.Copy(p.stdout, p.stdin)
		copied <- err
	}()
	select {
	case err := <-copied:
		if err != nil {
			return p.failed(err)
		}
		return exitOK
	case <-p.signals:
		p.signalled = true
		return exitTerminated
	case <-ctx.Done():
		return exitOK
	}
}

func (p *program) tty(ctx context.Context, args []string) int {
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH) // before the first reading, so that no change is missed
	defer signal.Stop(resized)
	for last := ""; ; {
		size, err := p.terminalSize()
		if err != nil {
			fmt.Fprintln(p.stdout, "no terminal")
			if len(args) > 0 {
				return exitFailed
			}
			return exitOK
		}
		if size != last {
			fmt.Fprintln(p.stdout, "terminal "+size)
			last = size
		}
		if len(args) == 0 || size == args[0] {
			return exitOK
		}
		select {
		case <-resized:
		case <-p.signals:
			p.signalled = true
			return exitTerminated
		case <-ctx.Done():
			return exitOK
		}
	}
}

// terminalSize returns COLUMNSxROWS of the terminal on the standard input.
func (p *program) terminalSize() (string, error) {
	file, ok := p.stdin.(*os.File)
	if !ok {
		return "", unix.ENOTTY
	}
	size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%dx%d", size.Col, size.Row), nil
}
