package memcg

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/opencontainers/cgroups"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/roottest"
)

// eatVariable makes the test binary a process that takes so many mebibytes of memory for each line that it reads.
const eatVariable = "PODSTREAM_TEST_EAT"

func TestMain(m *testing.M) {
	if os.Getenv(eatVariable) != "" {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); fmt.Println("ready") {
			mib, _ := strconv.Atoi(lines.Text())
			if _, err := unix.Mmap(-1, 0, mib<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_POPULATE); err != nil {
				fmt.Println(err)
			}
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// group is a cgroup with a process.
type group struct {
	t   *testing.T
	dir string
	in  io.Writer
	out *bufio.Scanner
}

// newGroup makes a cgroup until the end of the test. With cgroup v2 it checks that Arm fails, and returns nil.
func newGroup(t *testing.T) *group {
	t.Helper()
	roottest.Need(t, "making a cgroup")
	g := &group{t: t, dir: filepath.Join("/sys/fs/cgroup/memory", "podstream-test-"+rand.Text())}
	if cgroups.IsCgroup2UnifiedMode() {
		n := New()
		defer n.Close()
		if err := n.Arm([]Threshold{{"/sys/fs/cgroup", 1}}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("cgroup v2 has such reports: %v", err)
		}
		return nil
	}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Env = append(os.Environ(), eatVariable+"=1")
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
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
		if err := unix.Rmdir(g.dir); err != nil {
			t.Errorf("remove the cgroup: %v", err)
		}
	})
	if err := os.WriteFile(filepath.Join(g.dir, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)), 0); err != nil {
		t.Fatal(err)
	}
	g.in, g.out = in, bufio.NewScanner(out)
	return g
}

// eat has the process take memory, and returns when it has it.
func (g *group) eat(mib int) {
	g.t.Helper()
	_, err := fmt.Fprintln(g.in, mib)
	if err != nil || !g.out.Scan() || g.out.Text() != "ready" {
		g.t.Fatalf("the process says %q, %v", g.out.Text(), errors.Join(err, g.out.Err()))
	}
}

func await(t *testing.T, n *Notifier, why string) {
	t.Helper()
	select {
	case <-n.Ready():
	case <-time.After(time.Minute):
		t.Fatal("no report:", why)
	}
}

// A threshold is reported when it is crossed, and not before.
func TestRegister(t *testing.T) {
	g := newGroup(t)
	if g == nil {
		return
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := register(fd, Threshold{g.dir, 32 << 20}); err != nil {
		t.Fatal(err)
	}
	events := func() (n uint64) {
		buffer := make([]byte, 8)
		if _, err := unix.Read(fd, buffer); err != nil && err != unix.EAGAIN {
			t.Fatal(err)
		}
		return binary.NativeEndian.Uint64(buffer)
	}
	g.eat(16)
	if n := events(); n != 0 {
		t.Errorf("%d reports of 16 MiB", n)
	}
	g.eat(32)
	if n := events(); n != 1 {
		t.Errorf("%d reports of 48 MiB; want 1", n)
	}
}

// Arm replaces the thresholds; one of a cgroup that isn't there doesn't keep the others from being armed.
func TestNotifier(t *testing.T) {
	g := newGroup(t)
	if g == nil {
		return
	}
	n := New()
	defer n.Close()
	if err := n.Arm([]Threshold{{g.dir + "/gone", 1}, {g.dir, 8 << 20}, {g.dir, 32 << 20}}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a cgroup that is gone: %v", err)
	}
	g.eat(16)
	await(t, n, "16 MiB of 8")
	g.eat(32)
	await(t, n, "48 MiB of 32")
	if err := n.Arm([]Threshold{{g.dir, 96 << 20}}); err != nil {
		t.Fatal(err)
	}
	g.eat(64)
	await(t, n, "112 MiB of 96")
	n.Close()
	n.Close()
}

// Thresholds that are replaced leave no descriptor open.
func TestArmAgain(t *testing.T) {
	g := newGroup(t)
	if g == nil {
		return
	}
	n := New()
	defer n.Close()
	open := func() int {
		descriptors, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(descriptors)
	}
	before := open()
	for i := range 20 {
		if err := n.Arm([]Threshold{{g.dir, int64(i+1) << 20}}); err != nil {
			t.Fatal(err)
		}
	}
	// One is the Notifier's, and some may be the runtime's for its poller.
	if after := open(); after > before+4 {
		t.Errorf("%d descriptors are open, and %d were before", after, before)
	}
}
