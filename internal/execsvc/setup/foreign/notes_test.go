package foreign

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign/fusetest"
)

// TestLeftoverOfContainer: what podexecd has left as another container is in another mount namespace, and counts.
func TestLeftoverOfContainer(t *testing.T) {
	s := fusetest.Hang(t, t.TempDir())
	h, bin := noting(t), t.TempDir()
	t.Cleanup(func() { h.awaitNone(t) })
	t.Cleanup(s.Die)
	if err := os.WriteFile(filepath.Join(bin, "mount"), []byte("#!/bin/sh\nls "+s.Dir+"/x\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	h.fork = func(cmd *exec.Cmd) error {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Cloneflags: unix.CLONE_NEWNS}
		return cmd.Start()
	}
	m := Mount{Source: "server:/share", Target: t.TempDir(), Type: "nfs"}
	if left, ok := errors.AsType[*AbandonedError](abandon(t, h, s, Job{Mount: &m})); !ok || left.Ended {
		t.Fatalf("%+v", left)
	}
	after := New(h.cfg)
	if _, ok := errors.AsType[*BusyError](after.mounting(share, m.Target)); !ok {
		t.Error("it doesn't count")
	}
	s.Die()
	h.awaitNone(t)
	if err := after.mounting(share, m.Target); err != nil {
		t.Error(err)
	}
}

// TestNotes: which notes of an earlier start count. Those that don't are removed, and files that are no notes stay.
func TestNotes(t *testing.T) {
	own := strconv.Itoa(os.Getpid()) + " " + startOf(os.Getpid())
	// A container's namespace is another one.
	elsewhere := "pid:[1]"
	for name, tc := range map[string]struct {
		name, content string
		// busy are the targets of the volume "v" that are busy.
		busy []string
		left bool
	}{
		"it lives":            {"boot " + pidNamespace() + " " + own + ".json", `{"volume":"v","kind":"mount","target":"/t"}`, []string{"/t"}, true},
		"not read":            {"boot " + pidNamespace() + " " + own + ".json", `{"volume":`, []string{"/t", "/u"}, true},
		"another boot":        {"other " + pidNamespace() + " " + own + ".json", `{"volume":"v","kind":"mount","target":"/t"}`, nil, false},
		"another process":     {"boot " + pidNamespace() + " " + strconv.Itoa(os.Getpid()) + " 1.json", `{"volume":"v","kind":"mount","target":"/t"}`, nil, false},
		"it has ended":        {"boot " + pidNamespace() + " 4194305 1.json", `{"volume":"v","kind":"mount","target":"/t"}`, nil, false},
		"a container's":       {"boot " + elsewhere + " " + own + ".json", `{"volume":"v","kind":"mount","target":"/t"}`, nil, false},
		"not complete":        {"boot " + pidNamespace() + " " + own + ".new", `{"volume":"v","kind":"mount","target":"/t"}`, nil, false},
		"no note":             {"README", "", nil, true},
		"no number":           {"boot " + pidNamespace() + " x 1.json", `{}`, nil, false},
		"no note of podexecd": {"a b c d.txt", "", nil, true},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, tc.name), []byte(tc.content), 0o600); err != nil {
			t.Fatal(err)
		}
		h := New(Config{Dir: dir, Boot: "boot"})
		for _, target := range []string{"/t", "/u"} {
			if err := h.mounting("v", target); (err != nil) != slices.Contains(tc.busy, target) {
				t.Errorf("%s: %s: %v", name, target, err)
			}
		}
		if left := len(h.notes(t)) > 0; left != tc.left {
			t.Errorf("%s: the file is left: %v; want %v", name, left, tc.left)
		}
	}
}

// TestUnseen: a process on the machine that can't be seen from podexecd's container keeps its target waiting, until its note is removed, and no
// other job of its volume. The error says what to do.
func TestUnseen(t *testing.T) {
	dir, target := t.TempDir(), t.TempDir()
	h := New(Config{Dir: dir, Boot: "boot"})
	var files []string
	for _, pid := range []string{"999991", "999992", "999993", "999994"} {
		parts := []string{"boot", firstNamespace, pid, "77"}
		l, ok := h.leftoverIn(parts)
		if !ok || l.unseen != (pidNamespace() != firstNamespace) {
			t.Fatalf("%+v, %v", l, ok)
		}
		if want := filepath.Join(dir, strings.Join(parts, " ")+".json"); l.note != want {
			t.Fatalf("its note is %s, want %s", l.note, want)
		}
		if err := os.WriteFile(l.note, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		l.unseen, l.volume, l.target = true, share, target
		files, h.leftovers = append(files, l.note), append(h.leftovers, l)
	}
	if _, err := h.Do(t.Context(), share, Job{Look: dir}); err != nil {
		t.Errorf("a job of the same volume elsewhere: %v", err)
	}
	unmount := Job{Unmount: &Unmount{Target: target}}
	_, err := h.Do(t.Context(), share, unmount)
	busy, ok := errors.AsType[*BusyError](err)
	if !ok || busy.Target != target || len(busy.PIDs) != 0 || !slices.Equal(busy.Unseen, files) {
		t.Errorf("%v, want a BusyError", err)
	}
	for _, part := range []string{"can't be seen", "--pid=host", files[0]} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q isn't in %q", part, err)
		}
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.Do(t.Context(), share, unmount); err != nil {
		t.Errorf("without the notes: %v", err)
	}
	h.awaitNone(t)
}

// TestNoStartTime: a helper that mounts has no job without a note, which needs its start time.
func TestNoStartTime(t *testing.T) {
	h := noting(t)
	h.fork = func(cmd *exec.Cmd) error {
		if err := cmd.Start(); err != nil {
			return err
		}
		// A zombie has none.
		return errors.Join(cmd.Process.Kill(), unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil))
	}
	job := Job{Mount: &Mount{Source: t.TempDir(), Target: t.TempDir(), Options: []string{"bind"}}}
	if _, err := h.Do(t.Context(), "disk", job); !IsUnchanged(err) || !strings.Contains(err.Error(), "record where it mounts") {
		t.Errorf("error %v", err)
	}
	h.awaitNone(t)
}

// TestNotesUnreadable: nothing is mounted while it isn't known what an earlier start of podexecd may still mount, nor is a mount taken for
// unmounted; and no helper has a job before its note is on disk.
func TestNotesUnreadable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "notes")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h, target := New(Config{Dir: dir, Boot: "boot"}), t.TempDir()
	mount := Job{Mount: &Mount{Source: t.TempDir(), Target: target, Options: []string{"bind"}}}
	for name, job := range map[string]Job{"mount": mount, "unmount": {Unmount: &Unmount{Target: target}}} {
		if _, err := h.Do(t.Context(), "disk", job); err == nil {
			t.Errorf("%s succeeds", name)
		}
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := h.read(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Do(t.Context(), "disk", mount); err == nil || !IsUnchanged(err) || len(mustMounts(t, target)) > 0 {
		t.Errorf("error %v, mounts %v", err, mustMounts(t, target))
	}
	h.awaitNone(t)
}
