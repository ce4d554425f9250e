package cgroup

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/opencontainers/cgroups"
	"golang.org/x/sys/unix"
)

// eatVariable makes the test binary a process that waits for a line, then allocates so many bytes of memory, reports
// it, and keeps them.
const eatVariable = "PODSTREAM_TEST_EAT"

func eat(text string) {
	size, _ := strconv.Atoi(text)
	in := bufio.NewReader(os.Stdin)
	_, _ = in.ReadString('\n')
	// An anonymous mapping, which Go's collector ignores.
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_LOCKED|unix.MAP_POPULATE)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("ready")
	_, _ = in.ReadString('\n')
	memory[0]++
}

// process is a child of the test.
type process struct {
	pid   int
	in    io.Writer
	lines *bufio.Scanner
	ended chan struct{}
}

// start runs a command until the test ends.
func start(t *testing.T, env string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{pid: cmd.Process.Pid, in: in, lines: bufio.NewScanner(out), ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		_, _ = cmd.Process.Wait()
	}()
	t.Cleanup(func() {
		p.kill(t)
		_ = in.Close()
		_ = out.Close()
	})
	return p
}

func sleeper(t *testing.T) *process {
	t.Helper()
	return start(t, "", "sleep", "600")
}

// join moves the process into the cgroups of these directories.
func (p *process) join(t *testing.T, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		if err := cgroups.WriteCgroupProc(dir, p.pid); err != nil {
			t.Fatal(err)
		}
	}
}

func (p *process) lives() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

func (p *process) kill(t *testing.T) {
	t.Helper()
	if p.lives() {
		_ = unix.Kill(p.pid, unix.SIGKILL)
	}
	p.awaitEnd(t)
}

func (p *process) awaitEnd(t *testing.T) {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(time.Minute):
		t.Errorf("process %d hasn't exited", p.pid)
	}
}

// startEater starts a process in the cgroup that has allocated so much memory.
func startEater(t *testing.T, dir string, size int) *process {
	t.Helper()
	p := start(t, eatVariable+"="+strconv.Itoa(size), "/proc/self/exe")
	p.join(t, dir)
	if _, err := fmt.Fprintln(p.in); err != nil {
		t.Fatal(err)
	}
	if !p.lines.Scan() || p.lines.Text() != "ready" {
		t.Fatalf("allocate memory: %q, %v", p.lines.Text(), p.lines.Err())
	}
	return p
}
