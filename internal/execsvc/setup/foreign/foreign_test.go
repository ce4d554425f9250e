package foreign

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign/fusetest"
)

// share is the volume of the tests' helpers. Its name is this process's own: helpers of other processes are counted by it too.
var share = fmt.Sprintf("server-%d:/share", os.Getpid())

func TestMain(m *testing.M) {
	Main()
	bindOnly()
	goleak.VerifyTestMain(m)
}

// hung returns Helpers and a file system that doesn't answer. The helpers have ended at the end of the test.
func hung(t *testing.T) (*Helpers, *fusetest.Server) {
	t.Helper()
	h := New(Config{Grace: 50 * time.Millisecond})
	t.Cleanup(func() { h.awaitNone(t) })
	return h, fusetest.Hang(t, t.TempDir())
}

// awaitNone returns when no helper runs.
func (h *Helpers) awaitNone(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	var all []*process
	for _, of := range h.running {
		for p := range of {
			all = append(all, p)
		}
	}
	h.mu.Unlock()
	for _, p := range all {
		<-p.ended
	}
}

// left returns the processes of the volume that haven't ended, sorted.
func (h *Helpers) left(volume string) []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pids(volume)
}

// abandon starts a job that hangs, and ends its context once the server has been asked.
func abandon(t *testing.T, h *Helpers, s *fusetest.Server, job Job) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := h.Do(ctx, share, job)
		done <- err
	}()
	select {
	case <-s.Asked():
	case err := <-done:
		t.Fatalf("the server wasn't asked: %v", err)
	}
	cancel()
	return <-done
}

// TestHang: a job on a file system that doesn't answer returns with its context. Its helper can't be killed, and is
// counted until the file system answers.
func TestHang(t *testing.T) {
	h, s := hung(t)
	err := abandon(t, h, s, Job{Look: s.Dir})
	left, ok := errors.AsType[*AbandonedError](err)
	if !ok || !errors.Is(err, ErrNoAnswer) || !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want an AbandonedError", err)
	}
	if left.Ended {
		t.Fatal("the helper could be killed: the file system didn't hang")
	}
	if got := h.left(share); !slices.Equal(got, []int{left.PID}) {
		t.Fatalf("running %v, want %d", got, left.PID)
	}
	for _, part := range []string{fmt.Sprint(left.PID), share, "it is tried again"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q isn't in %q", part, err)
		}
	}
	s.Die()
	h.awaitNone(t)
	if got := h.left(share); len(got) != 0 {
		t.Fatalf("running %v after the server's end", got)
	}
}

// TestTooMany: of one volume no more than MaxHelpers are left. A further job is refused at once, and one for another
// volume isn't.
func TestTooMany(t *testing.T) {
	h, s := hung(t)
	for range MaxHelpers {
		if left, ok := errors.AsType[*AbandonedError](abandon(t, h, s, Job{Look: s.Dir})); !ok || left.Ended {
			t.Fatalf("%+v", left)
		}
	}
	pids := h.left(share)
	if len(pids) != MaxHelpers {
		t.Fatalf("%d helpers are left", len(pids))
	}
	_, err := h.Do(t.Context(), share, Job{Look: s.Dir})
	busy, ok := errors.AsType[*BusyError](err)
	if !ok || !slices.Equal(busy.PIDs, pids) || !IsUnchanged(err) {
		t.Fatalf("error %v, want a BusyError with %v", err, pids)
	}
	for _, pid := range pids {
		if !strings.Contains(err.Error(), fmt.Sprint(pid)) {
			t.Errorf("%d isn't in %q", pid, err)
		}
	}
	if !strings.Contains(err.Error(), share) || !strings.Contains(err.Error(), "tried again") {
		t.Errorf("error %q", err)
	}
	if _, err := h.Do(t.Context(), "other:/share", Job{Look: t.TempDir()}); err != nil {
		t.Errorf("another volume: %v", err)
	}
	s.Die()
	h.awaitNone(t)
	if _, err := h.Do(t.Context(), share, Job{Look: t.TempDir()}); err != nil {
		t.Errorf("after their end: %v", err)
	}
}

// TestHelperHasLittle: a helper has podexecd's PATH and no other variable of it, and none of its descriptors, and its name
// and arguments name the job and the volume.
func TestHelperHasLittle(t *testing.T) {
	t.Setenv("SECRET", "value")
	h, s := hung(t)
	// One that podexecd has from its parent isn't closed at exec.
	inherited, err := unix.Open("/etc/hostname", unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(inherited) }()
	if err := abandon(t, h, s, Job{Look: s.Dir}); err == nil {
		t.Fatal("it didn't hang")
	}
	proc := fmt.Sprintf("/proc/%d/", h.left(share)[0])
	environ, err := os.ReadFile(proc + "environ")
	if err != nil || strings.Contains(string(environ), "SECRET") || !strings.Contains(string(environ), "PATH=") {
		t.Errorf("environment %q, %v", environ, err)
	}
	cmdline, err := os.ReadFile(proc + "cmdline")
	if want := "podexecd-foreign\x00--foreign-job=look\x00" + share + "\x00"; err != nil || string(cmdline) != want {
		t.Errorf("command line %q, %v", cmdline, err)
	}
	fds, err := os.ReadDir(proc + "fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		to, _ := os.Readlink(proc + "fd/" + fd.Name())
		// Go's runtime reads its cgroup's limits.
		if !strings.HasPrefix(to, "/sys/fs/cgroup/") && !strings.HasPrefix(to, "pipe:") && !strings.HasPrefix(to, "anon_inode:") && to != "/dev/null" {
			t.Errorf("descriptor %s is %s", fd.Name(), to)
		}
	}
}

// TestEndsWithPodexecd: a helper ends when the other end of its input is closed, as it is when podexecd has ended.
func TestEndsWithPodexecd(t *testing.T) {
	h := New(Config{})
	// It waits for a job that doesn't come.
	p, err := newProcess("disk", &Job{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.start((*exec.Cmd).Start), p.in.Close()); err != nil {
		t.Fatal(err)
	}
	p.run()
	if _, err := p.answer(); err == nil || !strings.Contains(err.Error(), "without an answer") {
		t.Fatalf("error %v", err)
	}
	h.Close()
	if _, err := h.Do(t.Context(), "disk", Job{Look: "/"}); !errors.Is(err, ErrClosed) {
		t.Fatalf("error %v, want ErrClosed", err)
	}
}

// TestClose: Close returns although a helper can't be killed.
func TestClose(t *testing.T) {
	h, s := hung(t)
	if err := abandon(t, h, s, Job{Look: s.Dir}); err == nil {
		t.Fatal("it didn't hang")
	}
	h.Close()
	if len(h.left(share)) != 1 {
		t.Error("the helper has ended")
	}
}

// TestBounds: what is exchanged is bounded.
func TestBounds(t *testing.T) {
	h := New(Config{})
	_, err := h.Do(t.Context(), "disk", Job{Look: strings.Repeat("x", maxJob)})
	if !errors.Is(err, errTooLarge) && (err == nil || !strings.Contains(err.Error(), errTooLarge.Error())) {
		t.Errorf("error %.200v", err)
	}
	f := failureOf(errors.New(strings.Repeat("ä", maxText)))
	if len(f.Text) > maxText+3 || strings.ContainsRune(f.Text, '\uFFFD') {
		t.Errorf("a text of %d bytes", len(f.Text))
	}
	if got := size(1<<63, 4096); got != 1<<63-1 {
		t.Errorf("size %d", got)
	}
	_, err = h.Do(t.Context(), "disk", Job{})
	if err == nil || err.Error() != errNoJob.Error() {
		t.Errorf("error %v", err)
	}
	h.awaitNone(t)
}
