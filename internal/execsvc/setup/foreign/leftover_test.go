package foreign

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign/tree"
	"github.com/podstream/podstream/internal/roottest"
)

// TestLeftOver: helpers that an earlier start of podexecd has left count, until they have ended.
func TestLeftOver(t *testing.T) {
	before, s := hung(t)
	for range MaxHelpers {
		if err := abandon(t, before, s, Job{Look: s.Dir}); err == nil {
			t.Fatal("it didn't hang")
		}
	}
	pids := before.left(share)
	h := New(Config{})
	_, err := h.Do(t.Context(), share, Job{Look: t.TempDir()})
	if busy, ok := errors.AsType[*BusyError](err); !ok || !slices.Equal(busy.PIDs, pids) {
		t.Errorf("error %v, want one with %v", err, pids)
	}
	s.Die()
	before.awaitNone(t)
	if _, err := h.Do(t.Context(), share, Job{Look: t.TempDir()}); err != nil {
		t.Error(err)
	}
	h.awaitNone(t)
}

// TestLeftOverChanges: while a helper of an earlier start may change the directories of claims, none is changed by a new one. One
// that only reads doesn't count. The error doesn't advise to unmount --volume-dir.
func TestLeftOverChanges(t *testing.T) {
	dir, h := t.TempDir(), New(Config{})
	own := leftover{volume: dir, pid: os.Getpid(), started: startOf(os.Getpid())}
	changes := map[string]Job{
		"sweep": {Sweep: &tree.Sweep{Root: dir}}, "remove": {Remove: &tree.Remove{Root: dir, Claim: "default/data", As: "x"}},
		"import": {Import: &tree.Import{Root: dir, Claim: "default/data", As: "x"}},
	}
	for kind := range changes {
		own.kind = kind
		h.leftovers = []leftover{own}
		for name, job := range changes {
			_, err := h.Do(t.Context(), dir, job)
			busy, ok := errors.AsType[*BusyError](err)
			if !ok || !slices.Equal(busy.PIDs, []int{own.pid}) || strings.Contains(err.Error(), "umount") || !IsUnchanged(err) {
				t.Errorf("%s after a %s: %v", name, kind, err)
			}
		}
		if err := h.Changing(dir); err == nil {
			t.Errorf("a %s doesn't count", kind)
		}
		if err := h.Changing(dir + "-other"); err != nil {
			t.Errorf("for another directory: %v", err)
		}
	}
	for name, l := range map[string]leftover{
		"that reads":     {volume: dir, pid: own.pid, kind: "survey", started: own.started},
		"that has ended": {volume: dir, pid: own.pid, kind: "import", started: "0"},
	} {
		h.leftovers = []leftover{l}
		if _, err := h.Do(t.Context(), dir, changes["sweep"]); err != nil || h.Changing(dir) != nil {
			t.Errorf("after one %s: %v, %v", name, err, h.Changing(dir))
		}
	}
	h.awaitNone(t)
}

// TestStrangers: a process of a container that has a helper's name and arguments doesn't count.
func TestStrangers(t *testing.T) {
	roottest.Need(t, "mount namespaces")
	for _, tc := range []struct {
		flags uintptr
		want  bool
	}{{0, true}, {unix.CLONE_NEWNS, false}} {
		in, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd := &exec.Cmd{
			Path: program, Args: []string{programName, jobFlag + "look", share}, Stdin: in,
			SysProcAttr: &syscall.SysProcAttr{Cloneflags: tc.flags},
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// A pipe holds 64 KiB: once this is written, the process reads, and has its name. It waits for the rest of a job.
		if _, err := out.Write(bytes.Repeat([]byte(" "), 68<<10)); err != nil {
			t.Fatal(err)
		}
		found := slices.ContainsFunc(findLeftovers(), func(l leftover) bool { return l.pid == cmd.Process.Pid })
		if found != tc.want {
			t.Errorf("with the flags %x of clone it counts: %v; want %v", tc.flags, found, tc.want)
		}
		_, _ = in.Close(), out.Close()
		_ = cmd.Wait() // It had no job.
	}
}
