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
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign/fusetest"
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
