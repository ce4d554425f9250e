package store_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/store"
)

// TestReplace: the old contents are gone, and commits continue from the new ones.
func TestReplace(t *testing.T) {
	s := newSetting(t)
	s.cfg.Tombstones = 3
	st, _ := s.open(t)
	mustCommit(t, st,
		rev(1, change(revision.ADD, newPod("old", "old", 1, 0)), change(revision.REMOVE, newPod("older", "older", 1, 0))))
	next := &store.Contents{Instance: "next", Number: 40, Horizon: 3, ReadySources: map[string]uint64{"api": 5}}
	next.Pods = append(next.Pods, newPod("a", "a", 39, 0), newPod("b", "b", 40, 5000))
	for _, removed := range []uint64{7, 8, 8, 9} {
		tomb := history.Tombstone{Pod: newPod(fmt.Sprintf("gone%d", removed), "gone", removed, 0), Removed: removed}
		next.Tombstones = append(next.Tombstones, tomb)
	}
	if err := st.Replace(next); err != nil {
		t.Fatal(err)
	}
	m := newModel(3, next)
	one := rev(41, change(revision.UPDATE, newPod("a", "a", 41, 0)))
	mustCommit(t, st, one)
	m.apply(one)
	mustClose(t, st)
	want := m.contents()
	if want.Horizon != 7 {
		t.Fatalf("the model's horizon is %d; want 7, as one tombstone was too many", want.Horizon)
	}
	if diff := cmp.Diff(describe(want), describe(s.contents(t))); diff != "" {
		t.Errorf("the replaced store (-want +got):\n%s", diff)
	}
}

func TestReplaceRefuses(t *testing.T) {
	s := newSetting(t)
	st, first := s.open(t)
	tomb := func(removed uint64) history.Tombstone {
		return history.Tombstone{Pod: newPod("u", "n", 1, 0), Removed: removed}
	}
	for name, c := range map[string]*store.Contents{
		"no instance id":          {Number: 3},
		"tombstones out of order": {Instance: "i", Tombstones: []history.Tombstone{tomb(3), tomb(2)}},
		"a pod without uid":       {Instance: "i", Pods: []*revision.Pod{newPod("", "n", 1, 0)}},
	} {
		if err := st.Replace(c); err == nil {
			t.Errorf("Replace by contents with %s succeeds; want an error", name)
		}
	}
	mustCommit(t, st, rev(1))
	mustClose(t, st)
	if c := s.contents(t); c.Instance != first.Instance || c.Number != 1 {
		t.Errorf("the store is %v; want the first one at revision 1", describe(c))
	}
	if names := s.aside(t); len(names) > 0 {
		t.Errorf("beside the store there are %v; want nothing", names)
	}
}

// TestLocked: opening a store that is open elsewhere is an error after a second, and changes nothing.
func TestLocked(t *testing.T) {
	s := newSetting(t)
	st, _ := s.open(t)
	begin := time.Now()
	other, c, err := store.Open(s.cfg)
	if other != nil || c != nil || !errors.Is(err, store.ErrLocked) {
		t.Fatalf("Open of a store that is open: %v, %v, %v; want ErrLocked only", other, c, err)
	}
	if took := time.Since(begin); took < time.Second || took > 10*time.Second {
		t.Errorf("it took %s to say so; want 1s", took)
	}
	// The lock applies to the file that replaces the first one.
	if err := st.Replace(&store.Contents{Instance: "i"}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.Open(s.cfg); !errors.Is(err, store.ErrLocked) {
		t.Fatalf("Open of a store that was replaced: %v; want ErrLocked", err)
	}
	mustCommit(t, st, rev(1))
	mustClose(t, st)
	if c := s.contents(t); c.Number != 1 {
		t.Errorf("the store is at revision %d; want 1", c.Number)
	}
}

// TestLockedWhileReplaced: a process that waited for a file that was replaced meanwhile opens the new one.
func TestLockedWhileReplaced(t *testing.T) {
	s, other := newSetting(t), newSetting(t)
	s.contents(t)
	want := other.contents(t)
	holder, err := os.Open(s.cfg.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	if err := unix.Flock(int(holder.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	go func() {
		st, c, err := store.Open(s.cfg)
		if err != nil {
			got <- err.Error()
			return
		}
		got <- c.Instance
		_ = st.Close()
	}()
	// Wait until it has opened the file too.
	for begin := time.Now(); openCount(t, s.cfg.Path) < 2 && time.Since(begin) < 500*time.Millisecond; {
		runtime.Gosched()
	}
	if err := os.Rename(other.cfg.Path, s.cfg.Path); err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(holder.Fd()), unix.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	if instance := <-got; instance != want.Instance {
		t.Errorf("Open gives %q; want the instance of the file that took the place, %q", instance, want.Instance)
	}
}

// openCount returns how many descriptors this process has of a file.
func openCount(t *testing.T, path string) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && target == path {
			n++
		}
	}
	return n
}

func TestClosed(t *testing.T) {
	st, _ := newSetting(t).open(t)
	mustClose(t, st)
	if err := st.Commit([]*revision.Revision{rev(1)}); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Commit after Close: %v; want ErrClosed", err)
	}
	if err := st.Replace(&store.Contents{Instance: "i"}); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Replace after Close: %v; want ErrClosed", err)
	}
	if err := st.Close(); err != nil {
		t.Errorf("Close after Close: %v; want nil", err)
	}
}

// TestNoDirectory: the daemon creates the directory; without it, Open fails.
func TestNoDirectory(t *testing.T) {
	s := settingIn(filepath.Join(t.TempDir(), "missing"))
	if st, c, err := store.Open(s.cfg); st != nil || c != nil || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Open in a missing directory: %v, %v, %v; want that it doesn't exist", st, c, err)
	}
}
