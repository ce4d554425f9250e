package foreign

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign/fusetest"
	"github.com/podstream/podstream/internal/execsvc/setup/foreign/initiator"
)

func isMount() bool { return filepath.Base(os.Args[0]) == "mount" }

func init() {
	if isMount() {
		runtime.LockOSThread() // The first thread waits for the one that mounts, and is a zombie when the process is killed.
	}
}

// bindOnly makes this program a mount(8) that makes a bind mount by one system call, if it is called by that name: the real one looks at
// the source before, where it ends when it is killed.
func bindOnly() {
	if !isMount() {
		return
	}
	done := make(chan error)
	go func() { done <- unix.Mount(os.Args[len(os.Args)-2], os.Args[len(os.Args)-1], "", unix.MS_BIND, "") }()
	if <-done != nil {
		os.Exit(32)
	}
	os.Exit(0)
}

// noting returns Helpers that keep notes.
func noting(t *testing.T) *Helpers {
	t.Helper()
	return New(Config{Grace: 50 * time.Millisecond, Dir: filepath.Join(t.TempDir(), "notes"), Boot: "boot"})
}

// notes returns the names of the notes.
func (h *Helpers) notes(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(h.cfg.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// lateMount returns a server that hangs, and a mount of it that was abandoned in the system call.
func lateMount(t *testing.T) (h *Helpers, s *fusetest.Server, m Mount) {
	t.Helper()
	s, _ = fusetest.File(t, t.TempDir())
	bin := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(bin, "mount")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	h = noting(t)
	m = Mount{Source: filepath.Join(s.Dir, fusetest.Subdirectory), Target: t.TempDir(), Type: "nfs"}
	t.Cleanup(func() {
		s.Die()
		h.awaitNone(t)
		for unix.Unmount(m.Target, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) == nil {
		}
	})
	s.Hang()
	if left, ok := errors.AsType[*AbandonedError](abandon(t, h, s, Job{Mount: &m})); !ok || left.Ended {
		t.Fatalf("%+v", left)
	}
	return h, s, m
}

// TestLateMount: a mount that was abandoned may be made when its server answers. Until its process has ended, nothing else is mounted
// there, and no unmount is complete; also after a restart of podexecd, when only the process that mounts is left of the helper.
func TestLateMount(t *testing.T) {
	h, s, m := lateMount(t)
	other := t.TempDir()
	for name, h := range map[string]*Helpers{"": h, "after a restart: ": New(h.cfg)} {
		for what, job := range map[string]Job{
			"the same mount": {Mount: &m}, "another one": {Mount: &Mount{Source: other, Target: m.Target + "/", Options: []string{"bind"}}},
			"a subPath": {SubPath: &SubPath{Root: other, SubPath: "x", Target: m.Target}}, "an unmount": {Unmount: &Unmount{Target: m.Target}},
		} {
			_, err := h.Do(t.Context(), share, job)
			busy, ok := errors.AsType[*BusyError](err)
			if !ok || busy.Target != m.Target || len(busy.PIDs) == 0 || !strings.Contains(err.Error(), m.Target) {
				t.Errorf("%s%s: %v, want a BusyError for %s", name, what, err, m.Target)
			}
		}
		busy, ok := errors.AsType[*BusyError](h.mounting("another volume", m.Target))
		if !ok {
			t.Fatalf("%sfor another volume it isn't busy", name)
		}
		// The helper has ended.
		if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", busy.PIDs[0])); string(comm) != "mount\n" || len(busy.PIDs) != 1 {
			t.Errorf("%sprocesses %v, the first one is %q (%v); want the one that mounts", name, busy.PIDs, comm, err)
		}
		if err := h.mounting(share, other); err != nil {
			t.Errorf("%sat another target: %v", name, err)
		}
	}
	if n := len(mustMounts(t, m.Target)); n != 0 {
		t.Fatalf("%d mounts", n)
	}
	s.Answer()
	h.awaitNone(t)
	if n := len(mustMounts(t, m.Target)); n != 1 {
		t.Fatalf("%d mounts: the abandoned mount wasn't made late", n)
	}
	if names := h.notes(t); len(names) != 0 {
		t.Errorf("notes %q are left", names)
	}
	h = New(h.cfg)
	if _, err := h.Do(t.Context(), share, Job{Mount: &m}); err != nil {
		t.Errorf("when it has ended: %v", err)
	}
	if _, err := h.Do(t.Context(), share, Job{Unmount: &Unmount{Target: m.Target}}); err != nil || len(mustMounts(t, m.Target)) != 0 {
		t.Errorf("%v, and mounts at %v", err, mustMounts(t, m.Target))
	}
	h.awaitNone(t)
}

// TestLateHold: the hold of a block device that was abandoned may still be made. Until its helper has ended, the device isn't held again,
// and no release is complete; also after a restart of podexecd.
func TestLateHold(t *testing.T) {
	h, s := noting(t), fusetest.Hang(t, t.TempDir())
	t.Cleanup(func() { h.awaitNone(t) })
	tag := fmt.Sprintf("late-%d", os.Getpid())
	hold := &MapDevice{Path: filepath.Join(s.Dir, "device"), Tag: tag}
	if left, ok := errors.AsType[*AbandonedError](abandon(t, h, s, Job{MapDevice: hold})); !ok || left.Ended {
		t.Fatalf("%+v", left)
	}
	for name, h := range map[string]*Helpers{"": h, "after a restart: ": New(h.cfg)} {
		for what, job := range map[string]Job{
			"the same": {MapDevice: hold}, "a release": {UnmapDevice: &UnmapDevice{Tag: tag}},
			"that of a disk": {Initiator: &initiator.Job{Map: &initiator.Map{Tag: tag}}}, "its release": {Initiator: &initiator.Job{Unmap: &initiator.Unmap{Tag: tag}}},
		} {
			_, err := h.Do(t.Context(), share, job)
			busy, ok := errors.AsType[*BusyError](err)
			if !ok || busy.Target != tag || len(busy.PIDs) != 1 || !strings.Contains(err.Error(), "an earlier hold of volume") {
				t.Errorf("%s%s: %v, want a BusyError for %s", name, what, err, tag)
			}
		}
		if _, err := h.Do(t.Context(), share, Job{UnmapDevice: &UnmapDevice{Tag: tag + "-other"}}); err != nil {
			t.Errorf("%sthe release of another device: %v", name, err)
		}
	}
	s.Die()
	h.awaitNone(t)
	if names := h.notes(t); len(names) != 0 {
		t.Errorf("notes %q are left", names)
	}
	for _, h := range []*Helpers{h, New(h.cfg)} {
		if _, err := h.Do(t.Context(), share, Job{UnmapDevice: &UnmapDevice{Tag: tag}}); err != nil {
			t.Errorf("when it has ended: %v", err)
		}
	}
}

// TestUnmountRace: an unmount doesn't succeed if a mount that was abandoned is made after it has looked, also if the process that mounts has
// ended before it is looked for.
func TestUnmountRace(t *testing.T) {
	h, s, m := lateMount(t)
	begun := make(chan struct{})
	h.fork = func(cmd *exec.Cmd) error {
		h.reading.Lock() // It is held until the mount is made: what may mount is looked for afterwards.
		defer close(begun)
		return cmd.Start()
	}
	done := make(chan error, 1)
	go func() {
		_, err := h.Do(t.Context(), share, Job{Unmount: &Unmount{Target: m.Target}})
		done <- err
	}()
	<-begun
	h.mu.Lock()
	var unmounts *process
	for p := range h.running[share] {
		if p.target == "" {
			unmounts = p
		}
	}
	h.mu.Unlock()
	<-unmounts.answered
	s.Answer()
	h.awaitNone(t)
	h.reading.Unlock()
	if err := <-done; err == nil || len(mustMounts(t, m.Target)) != 1 {
		t.Errorf("error %v with the mounts %v, want an error and one", err, mustMounts(t, m.Target))
	}
	h.fork = (*exec.Cmd).Start
	if _, err := h.Do(t.Context(), share, Job{Unmount: &Unmount{Target: m.Target}}); err != nil || len(mustMounts(t, m.Target)) != 0 {
		t.Errorf("when it has ended: %v, and mounts at %v", err, mustMounts(t, m.Target))
	}
	h.awaitNone(t)
}

// TestLeftChild: a mount whose helper has answered isn't answered while a process that it has started may still mount.
func TestLeftChild(t *testing.T) {
	h, s := hung(t)
	bin, target := t.TempDir(), t.TempDir()
	// The shell ends, and what it has started is in a system call that can't be interrupted.
	script := "#!/bin/sh\nexec 0<&- 1>&- 2>&-\nls " + s.Dir + "/x &\nread line < " + bin + "/asked\nexit 32\n"
	if err := errors.Join(
		os.WriteFile(filepath.Join(bin, "mount"), []byte(script), 0o755), unix.Mkfifo(filepath.Join(bin, "asked"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	done := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	go func() {
		_, err := h.Do(ctx, share, Job{Mount: &Mount{Source: "server:/share", Target: target, Type: "nfs"}})
		done <- err
	}()
	<-s.Asked()
	if err := os.WriteFile(filepath.Join(bin, "asked"), []byte("yes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if left, ok := errors.AsType[*AbandonedError](<-done); !ok || left.Ended {
		t.Errorf("%+v, want an AbandonedError", left)
	}
	if err := h.mounting(share, target); err == nil {
		t.Error("it isn't known that the mount may still be made")
	}
	s.Die()
	h.awaitNone(t)
	if err := h.mounting(share, target); err != nil {
		t.Error(err)
	}
}

// TestLeftoverOfOtherVersion: a helper of a version that didn't name its target may mount at each one of its volume.
func TestLeftoverOfOtherVersion(t *testing.T) {
	h, own := New(Config{}), leftover{volume: share, pid: os.Getpid(), started: startOf(os.Getpid()), kind: mountKind}
	h.leftovers = []leftover{own}
	busy, ok := errors.AsType[*BusyError](h.mounting(share, "/target"))
	if !ok || !slices.Equal(busy.PIDs, []int{own.pid}) {
		t.Errorf("%v", busy)
	}
	if err := h.mounting("another", "/target"); err != nil {
		t.Errorf("for another volume: %v", err)
	}
	h.leftovers[0].kind = "look"
	if err := h.mounting(share, "/target"); err != nil {
		t.Errorf("one that doesn't mount: %v", err)
	}
}
