package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

func TestCommands(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
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
		{name: "serve nothing", args: []string{"serve"}, signals: terminated(), code: exitTerminated, stdout: "serving args=[] host="},
		{name: "serve a bad address", args: []string{"serve", "nowhere"}, code: exitFailed, stderr: "missing port"},
		{name: "cat before write", args: []string{"cat", file}, code: exitFailed, stderr: "no such file"},
		{name: "write", args: []string{"write", file, "text"}},
		{name: "cat", args: []string{"cat", file}, stdout: "text"},
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

func TestServeAnswers(t *testing.T) {
	signals := make(chan os.Signal, 1)
	reader, writer := io.Pipe()
	done := make(chan int, 1)
	go func() { done <- run(t.Context(), []string{"serve", "127.0.0.1:0"}, signals, writer, io.Discard) }()

	line := make([]byte, 512)
	n, err := reader.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`address=(\S+)`).FindSubmatch(line[:n])
	if match == nil {
		t.Fatalf("no address in %q", line[:n])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + string(match[1]) + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || string(body) != "hello\n" {
		t.Errorf("body %q, %v", body, err)
	}
	signals <- syscall.SIGTERM
	if code := <-done; code != exitTerminated {
		t.Errorf("exit code %d, want %d", code, exitTerminated)
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
