package exits

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// harness is a Watcher with the test's cgroups of processes.
type harness struct {
	*Watcher
	t *testing.T
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	w, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	w.proc = t.TempDir()
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return &harness{w, t}
}

// start starts a process that runs until end is called. It is in the cgroup of a container with that ID.
func (h *harness) start(id string) (pid int, end func()) {
	h.t.Helper()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		if err := cmd.Process.Kill(); err != nil {
			h.t.Error(err)
		}
		_ = cmd.Wait()
	})
	h.t.Cleanup(end)
	h.cgroup(cmd.Process.Pid, "/kubepods/poduid/"+id)
	return cmd.Process.Pid, end
}

// cgroup sets the cgroup of a process.
func (h *harness) cgroup(pid int, path string) {
	h.t.Helper()
	dir := filepath.Join(h.proc, strconv.Itoa(pid))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup"), []byte("2:cpu:/\n0::"+path+"\n"), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) follow(id string, pid int) {
	h.t.Helper()
	if err := h.Follow(id, pid); err != nil {
		h.t.Fatal(err)
	}
}

// want waits for the ends of exactly these.
func (h *harness) want(ids ...string) {
	h.t.Helper()
	var got []string
	for len(got) < len(ids) {
		select {
		case <-h.Ready():
			got = append(got, h.Take()...)
		case <-time.After(time.Minute):
			h.t.Fatalf("%d have ended; want %d: the first ones are %q", len(got), len(ids), got[:min(len(got), 10)])
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(ids, got); diff != "" {
		h.t.Fatalf("what has ended (-want +got):\n%s", diff)
	}
}

// wantEmpty checks that no process is followed, and that Take has nothing to return.
func (h *harness) wantEmpty() {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.pidfds)+len(h.ids)+len(h.ended) > 0 {
		h.t.Errorf("pidfds %v of %v are open, and %v wait; want none", h.pidfds, h.ids, h.ended)
	}
}

// pidfds counts the pidfds that this process has open.
func pidfds(t *testing.T) (n int) {
	t.Helper()
	dir := "/proc/self/fd"
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if target, _ := os.Readlink(filepath.Join(dir, e.Name())); target == "anon_inode:[pidfd]" || target == "pidfd:[]" {
			n++
		}
	}
	return n
}

func TestEnd(t *testing.T) {
	h := newHarness(t)
	a, endA := h.start("a")
	b, endB := h.start("b")
	h.follow("a", a)
	h.follow("b", b)
	endA()
	h.want("a")
	endB()
	h.want("b")
	h.wantEmpty()
}

func TestUnfollow(t *testing.T) {
	h := newHarness(t)
	a, endA := h.start("a")
	b, endB := h.start("b")
	h.follow("a", a)
	h.follow("a", a)
	h.follow("b", b)
	h.Unfollow("a")
	h.Unfollow("a")
	h.Unfollow("never followed")
	endA()
	endB()
	h.want("b")
	h.wantEmpty()
}

// While a child is being forked it has a copy of each pidfd. A container that is no longer followed isn't reported.
func TestUnfollowWhileForking(t *testing.T) {
	h := newHarness(t)
	a, endA := h.start("a")
	b, endB := h.start("b")
	h.follow("a", a)
	childs, err := unix.Dup(h.pidfds["a"])
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(childs)
	h.Unfollow("a")
	h.follow("b", b)
	endA()
	endB()
	h.want("b")
	h.wantEmpty()
}

// A container that is followed again under its ID is reported again.
func TestFollowAgain(t *testing.T) {
	h := newHarness(t)
	for range 3 {
		pid, end := h.start("a")
		h.follow("a", pid)
		end()
		h.want("a")
	}
}

func TestClose(t *testing.T) {
	h := newHarness(t)
	before := pidfds(t)
	pid, end := h.start("a")
	h.follow("a", pid)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	end()
	if err := h.Follow("b", pid); !errors.Is(err, os.ErrClosed) {
		t.Errorf("error %v; want ErrClosed", err)
	}
	h.Unfollow("a")
	if ids := h.Take(); len(ids) > 0 {
		t.Errorf("%v have ended; want none after Close", ids)
	}
	h.wantEmpty()
	if after := pidfds(t); after != before {
		t.Errorf("%d pidfds are open; want %d as before", after, before)
	}
}

// A thousand containers come and go, some of them unfollowed as they end; each of the others is reported once, and no
// descriptor stays open. While file descriptors are reused, no end is reported of a container that has replaced
// another.
func TestChurn(t *testing.T) {
	h := newHarness(t)
	before := pidfds(t)
	var want []string
	living, endLiving := h.start("living")
	h.follow("living", living)
	for i := range 50 {
		// One process stands for twenty, to save resources.
		pid, end := h.start("")
		for j := range 20 {
			id := fmt.Sprintf("%02d-%02d", i, j)
			h.cgroup(pid, "/"+id)
			h.follow(id, pid)
			if j%4 == 0 {
				h.Unfollow(id)
			} else {
				want = append(want, id)
			}
		}
		end()
	}
	slices.Sort(want)
	h.want(want...)
	if _, ok := h.pidfds["living"]; !ok {
		t.Error("what lives isn't followed any more")
	}
	h.Unfollow("living")
	endLiving()
	h.wantEmpty()
	if after := pidfds(t); after != before {
		t.Errorf("%d pidfds are open; want %d as before", after, before)
	}
}

// There are more ends at once than fit into one answer of the kernel.
func TestManyAtOnce(t *testing.T) {
	h := newHarness(t)
	pid, end := h.start("000")
	var want []string
	for i := range 300 {
		id := fmt.Sprintf("%03d", i)
		h.cgroup(pid, "/"+id)
		h.follow(id, pid)
		want = append(want, id)
	}
	end()
	h.want(want...)
	h.wantEmpty()
}

func TestConcurrentUse(t *testing.T) {
	h := newHarness(t)
	var group sync.WaitGroup
	for i := range 4 {
		pid, end := h.start(strconv.Itoa(i))
		group.Go(func() {
			for range 50 {
				if err := h.Follow(strconv.Itoa(i), pid); err != nil && !errors.Is(err, os.ErrClosed) {
					t.Error(err)
				}
				h.Take()
				h.Unfollow(strconv.Itoa(i))
			}
			end()
		})
	}
	group.Go(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	group.Wait()
}
