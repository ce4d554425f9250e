package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// terminated is a queue of signals with one SIGTERM in it.
func terminated() <-chan os.Signal {
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGTERM
	return signals
}

// run runs a command line with an empty standard input.
func run(ctx context.Context, args []string, signals <-chan os.Signal, stdout, stderr io.Writer) int {
	p := &program{signals: signals, stdin: strings.NewReader(""), stdout: stdout, stderr: stderr}
	return p.run(ctx, args)
}

func TestCommands(t *testing.T) {
	dir := t.TempDir()
	file, once, record := filepath.Join(dir, "file"), filepath.Join(dir, "once"), filepath.Join(dir, "record")
	nowhere := filepath.Join(dir, "no", "such", "file")
	t.Setenv("SAMPLE_TEST", "yes")
	for _, test := range []struct {
		name    string
		args    []string
		signals <-chan os.Signal
		code    int
		stdout  string // a part of it
		stderr  string // a part of it
	}{
		{name: "no command", code: exitUsage, stderr: "no command"},
		{name: "unknown command", args: []string{"dance"}, code: exitUsage, stderr: `unknown command "dance"`},
		{name: "too few arguments", args: []string{"exit"}, code: exitUsage, stderr: "too few"},
		{name: "too many arguments", args: []string{"cat", "a", "b"}, code: exitUsage, stderr: "too many"},
		{name: "sleep ends", args: []string{"sleep", "1ms"}},
		{name: "sleep zero", args: []string{"sleep", "0"}},
		{name: "sleep is terminated", args: []string{"sleep"}, signals: terminated(), code: exitTerminated},
		{name: "sleep a bad duration", args: []string{"sleep", "-1s"}, code: exitUsage, stderr: "not a duration"},
		{name: "exit", args: []string{"exit", "7"}, code: 7},
		{name: "exit later", args: []string{"exit", "7", "1ms"}, code: 7},
		{name: "exit later, terminated", args: []string{"exit", "7", "1h"}, signals: terminated(), code: exitTerminated},
		{name: "exit with too large a code", args: []string{"exit", "256"}, code: exitUsage, stderr: "0 to 255"},
		{name: "print", args: []string{"print", "one", "two"}, signals: terminated(), code: exitTerminated, stdout: "one two\n"},
		{name: "env", args: []string{"env"}, signals: terminated(), code: exitTerminated, stdout: "SAMPLE_TEST=yes\n"},
		{name: "inspect", args: []string{"inspect", nowhere}, signals: terminated(), code: exitTerminated, stdout: `"SAMPLE_TEST":"yes"`},
		{name: "serve nothing", args: []string{"serve"}, signals: terminated(), code: exitTerminated, stdout: "serving args=[] host="},
		{name: "serve a bad address", args: []string{"serve", "nowhere"}, code: exitFailed, stderr: "missing port"},
		{name: "cat before write", args: []string{"cat", file}, code: exitFailed, stderr: "no such file"},
		{name: "write", args: []string{"write", file, "text"}},
		{name: "cat", args: []string{"cat", file}, stdout: "text"},
		{name: "exists", args: []string{"exists", file}},
		{name: "append", args: []string{"append", file, " more"}},
		{name: "append again", args: []string{"append", file, "last"}},
		{name: "cat what was appended", args: []string{"cat", file}, stdout: "text more\nlast\n"},
		{name: "append nowhere", args: []string{"append", nowhere, "x"}, code: exitFailed, stderr: "no such file"},
		{name: "remove", args: []string{"remove", file}},
		{name: "exists no more", args: []string{"exists", file}, code: exitFailed, stderr: "stat " + file},
		{name: "remove a second time", args: []string{"remove", file}, code: exitFailed, stderr: "no such file"},
		{name: "fail-once a bad code", args: []string{"fail-once", once, "-1"}, code: exitUsage, stderr: "0 to 255"},
		{name: "fail-once nowhere", args: []string{"fail-once", nowhere, "3"}, code: exitFailed, stderr: "no such file"},
		{name: "fail-once fails", args: []string{"fail-once", once, "3"}, code: 3},
		{name: "fail-once fails once", args: []string{"fail-once", once, "3"}},
		{name: "message", args: []string{"message", file, "why", "4"}, code: 4},
		{name: "cat message", args: []string{"cat", file}, stdout: "why"},
		{name: "message a bad code", args: []string{"message", file, "why", "x"}, code: exitUsage, stderr: "0 to 255"},
		{name: "follow nothing", args: []string{"follow", dir}, code: exitFailed, stderr: "no such file"},
		{name: "link", args: []string{"link", ".", filepath.Join(dir, "..data")}},
		{name: "link twice", args: []string{"link", ".", filepath.Join(dir, "..data")}, code: exitFailed, stderr: "file exists"},
		{name: "follow a directory in it", args: []string{"follow", dir}, code: exitFailed, stderr: "is a directory"},
		{name: "on-term", args: []string{"on-term", record, "bye"}, signals: terminated(), code: exitTerminated},
		{name: "on-term with all", args: []string{"on-term", record, "good night", "1ms", "0"}, signals: terminated()},
		{name: "cat what on-term appended", args: []string{"cat", record}, stdout: "bye\ngood night\n"},
		{name: "on-term a bad duration", args: []string{"on-term", record, "x", "soon"}, code: exitUsage, stderr: "not a duration"},
		{name: "on-term a bad code", args: []string{"on-term", record, "x", "0", "300"}, code: exitUsage, stderr: "0 to 255"},
		{name: "on-term nowhere", args: []string{"on-term", nowhere, "x"}, signals: terminated(), code: exitFailed, stderr: "no such file"},
		{name: "diary", args: []string{"diary", record, "seq", "cat", file, ";", "exit", "6"}, code: 6, stdout: "why"},
		{name: "diary of nothing", args: []string{"diary", record}, code: exitUsage, stderr: "too few"},
		{name: "diary nowhere", args: []string{"diary", nowhere, "exit", "0"}, code: exitFailed, stderr: "no such file"},
		{name: "seq", args: []string{"seq", "remove", record, ";", "cat", file, ";", "exit", "5", ";", "cat", once}, code: 5, stdout: "why"},
		{name: "seq of one", args: []string{"seq", "exit", "6"}, code: 6},
		{name: "seq without a command", args: []string{"seq", "exit", "0", ";"}, code: exitUsage, stderr: "no command"},
		{name: "seq ends with a signal", args: []string{"seq", "pause", ";", "exit", "7"}, signals: terminated()},
		{name: "serve a strange option", args: []string{"serve", ":0", "--redy=x"}, code: exitUsage, stderr: `unknown argument "--redy=x"`},
		{name: "serve two addresses", args: []string{"serve", ":0", ":1"}, code: exitUsage, stderr: `unknown argument ":1"`},
		{name: "tty without one", args: []string{"tty"}, stdout: "no terminal\n"},
		{name: "tty of a size without one", args: []string{"tty", "80x24"}, code: exitFailed, stdout: "no terminal\n"},
		{name: "hog", args: []string{"hog", "2"}, signals: terminated(), code: exitTerminated, stdout: "holding 2 MiB\n"},
		{name: "hog a bad number", args: []string{"hog", "much"}, code: exitUsage, stderr: "whole number"},
		{name: "pause", args: []string{"pause"}, signals: terminated()},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), test.args, test.signals, &stdout, &stderr)
			if code != test.code {
				t.Errorf("exit code %d, want %d; stderr: %s", code, test.code, stderr.String())
			}
			if !strings.Contains(stdout.String(), test.stdout) {
				t.Errorf("stdout %q lacks %q", stdout.String(), test.stdout)
			}
			if !strings.Contains(stderr.String(), test.stderr) || (test.stderr == "" && stderr.Len() > 0) {
				t.Errorf("stderr %q, want %q in it", stderr.String(), test.stderr)
			}
		})
	}
}

func TestIgnoreTermRunsOn(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reader, writer := io.Pipe()
	done := make(chan int, 1)
	go func() { done <- run(ctx, []string{"ignore-term"}, terminated(), writer, io.Discard) }()

	buffer := make([]byte, 64)
	if n, err := reader.Read(buffer); err != nil || string(buffer[:n]) != "ignored a signal\n" {
		t.Fatalf("read %q, %v", buffer[:n], err)
	}
	select {
	case code := <-done:
		t.Fatalf("ended with %d on SIGTERM", code)
	default:
	}
	cancel()
	if code := <-done; code != exitOK {
		t.Errorf("exit code %d at the end of the context", code)
	}
}

// Each content is printed whole, and once.
func TestFollow(t *testing.T) {
	dir := t.TempDir()
	put := func(version string) {
		if err := errors.Join(
			os.Mkdir(filepath.Join(dir, version), 0o755), os.WriteFile(filepath.Join(dir, version, "a"), []byte(version), 0o644),
			os.WriteFile(filepath.Join(dir, version, "b"), nil, 0o644), os.Symlink(version, filepath.Join(dir, "new")),
			os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "..data")),
		); err != nil {
			t.Fatal(err)
		}
	}
	put("1")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reader, writer := io.Pipe()
	done := make(chan int, 1)
	go func() { done <- run(ctx, []string{"follow", dir}, nil, writer, io.Discard) }()
	lines := bufio.NewScanner(reader)
	for _, version := range []string{"1", "2", "3"} {
		if version != "1" {
			put(version)
		}
		if want := fmt.Sprintf(`a=%q b=""`, version); !lines.Scan() || lines.Text() != want {
			t.Fatalf("it printed %q; want %q", lines.Text(), want)
		}
	}
	cancel()
	if code := <-done; code != exitOK {
		t.Errorf("exit code %d at the end of the context", code)
	}
}

// A version that is removed while it is read is no error, and none is read in parts.
func TestContentDuringUpdates(t *testing.T) {
	dir := t.TempDir()
	put := func(version string) error {
		return errors.Join(
			os.Mkdir(filepath.Join(dir, version), 0o755), os.WriteFile(filepath.Join(dir, version, "a"), []byte(version), 0o644),
			os.WriteFile(filepath.Join(dir, version, "b"), []byte(version), 0o644), os.Symlink(version, filepath.Join(dir, "new")),
			os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "..data")),
		)
	}
	if err := put("0"); err != nil {
		t.Fatal(err)
	}
	updated := make(chan error, 1)
	go func() {
		for i := range 500 {
			if err := errors.Join(put(strconv.Itoa(i+1)), os.RemoveAll(filepath.Join(dir, strconv.Itoa(i)))); err != nil {
				updated <- err
				return
			}
		}
		updated <- nil
	}()
	for {
		line, err := content(dir)
		if err != nil {
			t.Fatal(err)
		}
		var a, b string
		if _, err := fmt.Sscanf(line, "a=%q b=%q", &a, &b); err != nil || a != b {
			t.Fatalf("%s was read: %v", line, err)
		}
		select {
		case err := <-updated:
			if err != nil {
				t.Fatal(err)
			}
			return
		default:
		}
	}
}

func TestReap(t *testing.T) {
	child := exec.Command("/proc/self/exe", "-test.run=^$")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	// Waits for the end and leaves the child to be reaped.
	if err := waitid(child.Process.Pid); err != nil {
		t.Fatal(err)
	}
	reap()
	if err := syscall.Kill(child.Process.Pid, 0); err != syscall.ESRCH {
		t.Errorf("the child is still there: %v", err)
	}
}

func waitid(pid int) error {
	return unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
}
