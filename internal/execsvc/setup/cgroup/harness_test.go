package cgroup

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/cgroups"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/roottest"
)

// eatVariable makes the test binary a process that waits for a line, then allocates so many bytes of memory, reports
// it, and keeps them.
const eatVariable = "PODSTREAM_TEST_EAT"

func TestMain(m *testing.M) {
	if text := os.Getenv(eatVariable); text != "" {
		eat(text)
		return
	}
	os.Exit(m.Run())
}

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

// newRoot returns the name of a cgroup root for the test, which is removed with its content at the end.
func newRoot(t testing.TB) string {
	t.Helper()
	roottest.Need(t, "creating cgroups")
	root := "/podstream-test-" + rand.Text()
	t.Cleanup(func() {
		g, err := driver{v2: cgroups.IsCgroup2UnifiedMode()}.open(parseName(root))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := g.remove(ctx); err != nil {
			t.Errorf("remove the cgroups of the test: %v", err)
		}
	})
	return root
}

// inTime returns a context with a timeout: a test that hangs couldn't clean up.
func inTime(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func newManager(t testing.TB, cfg Config) *Manager {
	t.Helper()
	cfg.PerQoS = true
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// groupOf opens the pod's cgroup.
func groupOf(t *testing.T, m *Manager, p *v1.Pod) group {
	t.Helper()
	return openGroup(t, m, m.layout.pod(p.UID, podmeta.QOSClass(p)))
}

func openGroup(t *testing.T, m *Manager, n name) group {
	t.Helper()
	g, err := m.driver.open(n)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// child creates a child cgroup in one hierarchy, as a runtime does for a container.
func child(t *testing.T, g group, controller, container string) string {
	t.Helper()
	dir := g.Path(controller) + "/" + container
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// shares reads the cgroup's cpu.shares on v1, or its cpu.weight on v2.
func shares(t *testing.T, g group) string {
	t.Helper()
	file := "cpu.shares"
	if g.v2 {
		file = "cpu.weight"
	}
	return read(t, g.Path("cpu"), file)
}

func setShares(t *testing.T, g group, value string) {
	t.Helper()
	file := "cpu.shares"
	if g.v2 {
		file = "cpu.weight"
	}
	if err := cgroups.WriteFile(g.Path("cpu"), file, value); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, dir, file string) string {
	t.Helper()
	text, err := cgroups.ReadFile(dir, file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(text)
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
