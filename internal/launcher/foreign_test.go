package launcher

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/grpcserver"
	"github.com/podstream/podstream/internal/logtest"
	"github.com/podstream/podstream/internal/roottest"
)

// TestForeignEntries: what podconfigd's user makes in podexecd's places, and beside them, keeps neither the launcher nor podexecd
// from starting.
func TestForeignEntries(t *testing.T) {
	roottest.Need(t, "it gives files to another user")
	places := []string{podexecdSocket, podexecdSocket + lockSuffix, noticesName}
	var user int
	l := prepared(t, func(run string, uid int) {
		user = uid
		for i := range 1100 {
			if err := os.WriteFile(filepath.Join(run, fmt.Sprint(i)), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range append([]string{"podexecd.sock.x", "podexecd.sock.notify"}, places...) {
			makeFull(t, filepath.Join(run, name), uid)
		}
		for _, name := range []string{"podexecd.sock.notify/podexecd", noticesName + "/" + noticesOf["podexecd"]} {
			makeFull(t, filepath.Join(run, name), uid)
		}
	})
	first := l.started("podconfigd", "podexecd")
	run := filepath.Join(l.dir, "run")
	for _, name := range places {
		if uid, _ := owner(t, filepath.Join(run, name)); uid != 0 {
			t.Errorf("%s is user %d's", name, uid)
		}
	}
	if moved, err := filepath.Glob(filepath.Join(run, foreignPrefix+"*")); err != nil || len(moved) != len(places) {
		t.Errorf("the moved entries are %q, %v", moved, err)
	}
	if err := os.Remove(filepath.Join(run, podexecdSocket)); err != nil {
		t.Fatal(err)
	}
	makeFull(t, filepath.Join(run, podexecdSocket), user)
	if err := unix.Kill(pid(t, first["podexecd"]), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	l.await("the daemon ended, and is started again")
	l.started("podexecd")
	if uid, mode := owner(t, filepath.Join(run, podexecdSocket)); uid != 0 || mode.Type() != os.ModeSocket {
		t.Errorf("the entry in the place of podexecd's socket is user %d's, with mode %v", uid, mode)
	}
	l.stop()
	l.ends(0)
}

// TestClaimRace: podconfigd's user makes and removes an entry all the time. The lock becomes root's all the same, and stays that.
func TestClaimRace(t *testing.T) {
	roottest.Need(t, "it starts a process of another user")
	run := testRunDir(t, t.TempDir())
	if err := run.forPodexecd(); err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(run.path, podexecdSocket+lockSuffix)
	act(t, run.owner.uid, "toggle", lock)
	for i := range 50 {
		run.moved = 0
		if err := os.Remove(lock); err != nil {
			t.Fatal(err)
		}
		if err := run.forPodexecd(); err != nil {
			t.Fatal(err)
		}
		if uid, mode := owner(t, lock); uid != 0 || mode != 0o600 {
			t.Fatalf("at attempt %d the lock is user %d's, with mode %v", i, uid, mode)
		}
	}
}

// TestClosed: with too many entries in podexecd's places, podconfigd's user loses the right to make any. The next launcher gives
// it back.
func TestClosed(t *testing.T) {
	roottest.Need(t, "it gives files to another user")
	run := testRunDir(t, t.TempDir())
	var log logtest.Buffer
	run.log = slog.New(slog.NewTextHandler(&log, nil))
	mode := func() os.FileMode {
		_, mode := owner(t, run.path)
		return mode.Perm()
	}
	for i := range maxForeign {
		if err := errors.Join(run.forPodexecd(), run.forPodconfigd()); err != nil {
			t.Fatal(err)
		}
		if got := mode(); got != 0o775 {
			t.Fatalf("after %d entries the directory has the mode %v", i, got)
		}
		if err := os.Remove(filepath.Join(run.path, podexecdSocket)); err != nil {
			t.Fatal(err)
		}
		makeFull(t, filepath.Join(run.path, podexecdSocket), run.owner.uid)
		if err := run.forPodexecd(); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(run.forPodexecd(), run.forPodconfigd()); err != nil {
		t.Fatal(err)
	}
	if got := mode(); got != 0o755 {
		t.Errorf("after %d entries the directory has the mode %v", maxForeign, got)
	}
	if got := strings.Count(log.String(), "level=ERROR"); got != 1 {
		t.Errorf("the log has %d errors:\n%s", got, log.String())
	}
	if err := os.WriteFile(filepath.Join(run.path, "other"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	next := &runDir{path: run.path, owner: run.owner, log: run.log}
	if err := next.forPodconfigd(); err != nil || mode() != 0o775 {
		t.Errorf("the next launcher: %v, mode %v", err, mode())
	}
	// A directory of another program has other modes.
	if err := os.Chmod(run.path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := next.forPodconfigd(); err == nil || !strings.Contains(err.Error(), `has the file "`) {
		t.Errorf("with another mode: %v; want an error", err)
	}
}

// TestForeignMount: a user can mount a FUSE file system on its own directory. Such a mount in podexecd's place is detached.
func TestForeignMount(t *testing.T) {
	roottest.Need(t, "it mounts")
	run := testRunDir(t, t.TempDir())
	if err := run.forPodexecd(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(run.path, podexecdSocket)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	makeFull(t, path, run.owner.uid)
	if err := unix.Mount("none", path, "tmpfs", 0, fmt.Sprintf("size=4k,uid=%d", run.owner.uid)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
	if err := run.forPodexecd(); err != nil {
		t.Fatal(err)
	}
	if uid, mode := owner(t, path); uid != 0 || mode.Type() != os.ModeSocket {
		t.Errorf("the entry in the place of podexecd's socket is user %d's, with mode %v", uid, mode)
	}
}

// TestSecondName: a link to a file of root in podexecd's place isn't taken for podexecd's lock: the file's user may hold it.
func TestSecondName(t *testing.T) {
	roottest.Need(t, "it makes files of root")
	dir := t.TempDir()
	run := testRunDir(t, dir)
	if err := run.forPodexecd(); err != nil {
		t.Fatal(err)
	}
	lock, secret := filepath.Join(run.path, podexecdSocket+lockSuffix), filepath.Join(dir, "secret")
	for _, err := range []error{os.Remove(lock), os.WriteFile(secret, []byte("s"), 0o600), os.Link(secret, lock), run.forPodexecd()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(lock); err != nil || len(text) != 0 {
		t.Errorf("the lock has %q, %v", text, err)
	}
	if text, err := os.ReadFile(secret); err != nil || string(text) != "s" {
		t.Errorf("the other file has %q, %v", text, err)
	}
}

// TestStartRace: podconfigd's user makes and removes an entry in the place of podexecd's socket all the time. podexecd listens
// there at each start.
func TestStartRace(t *testing.T) {
	roottest.Need(t, "it starts a process of another user")
	run := testRunDir(t, t.TempDir())
	if err := run.forPodexecd(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(run.path, podexecdSocket)
	act(t, run.owner.uid, "toggle", path)
	for range 50 {
		run.moved = 0
		if err := run.forPodexecd(); err != nil {
			t.Fatal(err)
		}
		listeners, err := grpcserver.Listen([]string{"unix://" + path})
		if err != nil {
			t.Fatal(err)
		}
		if uid, mode := owner(t, path); uid != 0 || mode != os.ModeSocket|0o600 {
			t.Errorf("the socket is user %d's, with mode %v", uid, mode)
		}
		_ = listeners[0].Close()
	}
}
