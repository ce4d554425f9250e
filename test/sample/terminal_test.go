package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestStdin(t *testing.T) {
	var stdout bytes.Buffer
	p := &program{stdin: strings.NewReader("one\ntwo"), stdout: &stdout}
	if code := p.run(t.Context(), []string{"stdin"}); code != exitOK || stdout.String() != "one\ntwo" {
		t.Errorf("exit code %d, copied %q", code, stdout.String())
	}

	reader, writer := io.Pipe() // never written to
	defer writer.Close()
	p = &program{signals: terminated(), stdin: reader, stdout: io.Discard}
	if code := p.run(t.Context(), []string{"stdin"}); code != exitTerminated {
		t.Errorf("exit code %d after a signal", code)
	}
}

// openTerminal creates a pseudo-terminal and returns its two sides.
func openTerminal(t *testing.T) (master, terminal *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return master, terminal
}

func TestTTY(t *testing.T) {
	master, terminal := openTerminal(t)
	resize := func(columns, rows uint16) {
		t.Helper()
		if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}); err != nil {
			t.Fatal(err)
		}
	}
	resize(80, 24)
	var once bytes.Buffer
	p := &program{stdin: terminal, stdout: &once}
	if code := p.run(t.Context(), []string{"tty"}); code != exitOK || once.String() != "terminal 80x24\n" {
		t.Errorf("exit code %d, printed %q", code, once.String())
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reader, writer := io.Pipe()
	p = &program{stdin: terminal, stdout: writer}
	done := make(chan int, 1)
	go func() { done <- p.run(ctx, []string{"tty", "132x50"}) }()
	lines := bufio.NewReader(reader)
	for _, size := range [][2]uint16{{80, 24}, {100, 30}, {132, 50}} {
		resize(size[0], size[1])
		if size[0] != 80 { // it isn't our controlling terminal, so the kernel sends no SIGWINCH
			if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil {
				t.Fatal(err)
			}
		}
		want := fmt.Sprintf("terminal %dx%d\n", size[0], size[1])
		if line, err := lines.ReadString('\n'); err != nil || line != want {
			t.Errorf("printed %q, %v, want %q", line, err, want)
		}
	}
	if code := <-done; code != exitOK {
		t.Errorf("exit code %d", code)
	}
}
