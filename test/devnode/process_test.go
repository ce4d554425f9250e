package devnode

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// bareNode returns a node without a runtime, for tests of directories and processes. Its daemons are shell scripts.
func bareNode(t *testing.T, dir string, scripts map[string]string) *Node {
	t.Helper()
	bin := t.TempDir()
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	n := &Node{config: Config{Dir: dir, BinDir: bin, Log: t.Output()}}
	if err := n.claimDir(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// startSignal is a named pipe that a script writes to when it has started.
func startSignal(t *testing.T) (path string, await func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "started")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	// It is open for writing too, so that a read waits for the script.
	pipe, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pipe.Close() })
	if err := pipe.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return path, func() {
		t.Helper()
		if _, err := pipe.Read(make([]byte, 1)); err != nil {
			t.Fatalf("the script doesn't start: %v", err)
		}
	}
}

func TestProcess(t *testing.T) {
	started, awaitStart := startSignal(t)
	n := bareNode(t, t.TempDir(), map[string]string{
		"obedient": `trap 'echo bye; exit 0' TERM; echo ready "$@"; printf . > ` + started + `; while :; do sleep 0.01; done`,
		"failing":  `echo why not; exit 3`,
	})

	p, err := n.StartDaemon("obedient", "with", "arguments")
	if err != nil {
		t.Fatal(err)
	}
	awaitStart()
	if tail := p.LogTail(); tail != "ready with arguments" {
		t.Errorf("its log ends with %q; want its arguments", tail)
	}
	if err := p.Start(); err == nil {
		t.Error("Start succeeded while the process runs; want an error")
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	if tail := p.LogTail(); !strings.HasSuffix(tail, "bye") {
		t.Errorf("after Stop, the output ends with %q; want the output of its SIGTERM handler", tail)
	}
	if err := p.Stop(); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("Stop of an ended process: %v; want os.ErrProcessDone", err)
	}

	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	first := p.Pid()
	if err := p.Kill(); err != nil {
		t.Error(err)
	}
	if err := p.Kill(); err != nil {
		t.Errorf("Kill of an ended process: %v; want nil", err)
	}
	if err := p.Start(); err != nil || p.Pid() == first {
		t.Errorf("started again as process %d, %v", p.Pid(), err)
	} // Close ends it

	p, err = n.StartDaemon("failing")
	if err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := p.Wait(t.Context()); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("Wait returned %v, want exit code 3", err)
	}
	if tail := p.LogTail(); tail != "why not" {
		t.Errorf("its log ends with %q", tail)
	}
}

// TestClearKillsLeftovers: a daemon that an earlier node left is found by its command line. Daemons of other nodes
// stay.
func TestClearKillsLeftovers(t *testing.T) {
	dir := t.TempDir()
	script := map[string]string{"podexecd": `while :; do sleep 0.01; done`}
	n := bareNode(t, dir, nil)
	other := bareNode(t, t.TempDir(), script)
	// The path of the other node's directory starts with this node's path.
	bystander, err := other.StartDaemon("podexecd", "--root-dir", dir+"-not/podexecd")
	if err != nil {
		t.Fatal(err)
	}
	leftover, err := other.StartDaemonAs("leftover", "podexecd", "--listen=unix://"+dir+"/podexecd.sock")
	if err != nil {
		t.Fatal(err)
	}
	// The process of a script has the name of the interpreter.
	names := []string{"sh", "dash", "podexecd"}
	if err := killPrograms([]string{n.dir}, names...); err != nil {
		t.Fatal(err)
	}
	<-leftover.Done()
	if err := bystander.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the bystander was killed: %v", err)
	}
}

func TestDirectory(t *testing.T) {
	t.Run("foreign content", func(t *testing.T) {
		dir := t.TempDir()
		precious := filepath.Join(dir, "thesis.txt")
		if err := os.WriteFile(precious, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		n := &Node{config: Config{Dir: dir}}
		if err := n.claimDir(); err == nil || !strings.Contains(err.Error(), "wasn't made by devnode") {
			t.Errorf("claimed a directory with foreign content: %v", err)
		}
		if _, err := os.Stat(precious); err != nil {
			t.Error(err)
		}
	})
	t.Run("in use", func(t *testing.T) {
		n := bareNode(t, t.TempDir(), nil)
		second := &Node{config: Config{Dir: n.dir}}
		if err := second.claimDir(); err == nil || !strings.Contains(err.Error(), "in use by another process") {
			t.Errorf("claimed a directory that is in use: %v", err)
		}
	})
	t.Run("logs stay", func(t *testing.T) {
		dir := t.TempDir()
		n := bareNode(t, dir, nil)
		for _, path := range []string{n.Path("log", "kept"), n.Path("state")} {
			if err := os.WriteFile(path, nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(n.Path("log", "kept")); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(n.Path("state")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("state is left: %v", err)
		}
		bareNode(t, dir, nil) // and it can be used again
	})
	t.Run("long path", func(t *testing.T) {
		n := bareNode(t, filepath.Join(t.TempDir(), strings.Repeat("long", 30)), nil)
		socket := n.Socket(strings.Repeat("x", 21))
		if len(socket)+len(".ttrpc") > maxSocketPath {
			t.Errorf("%s has %d bytes", socket, len(socket))
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Dir(socket)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the sockets' directory is left: %v", err)
		}
	})
}

func TestSubnetsDiffer(t *testing.T) {
	first, claim, err := pickSubnet()
	if err != nil {
		t.Fatal(err)
	}
	defer claim.Close()
	second, claim, err := pickSubnet()
	if err != nil {
		t.Fatal(err)
	}
	defer claim.Close()
	if first.Overlaps(second) {
		t.Errorf("two nodes share addresses: %s and %s", first, second)
	}
}

func TestUnescapeMount(t *testing.T) {
	if got := unescapeMount(`/a\040b\134040`); got != `/a b\040` {
		t.Errorf("got %q", got)
	}
}
