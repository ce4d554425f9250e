package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/foreign/fusetest"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/mounttable"
)

// checkBench is a bench whose device has a file system. Its check, fsck(8), waits for the test.
type checkBench struct {
	*bench
	// begun has a line for each check that has begun, and is open for writing while one runs.
	begun *bufio.Reader
	// log has a line for each check.
	log     string
	release string
}

func newCheckBench(t *testing.T) (*checkBench, storage.Staging) {
	t.Helper()
	b := &checkBench{bench: newBench(t)}
	dir := t.TempDir()
	b.log, b.release = filepath.Join(dir, "log"), filepath.Join(dir, "release")
	must(t, unix.Mkfifo(filepath.Join(dir, "begun"), 0o600))
	must(t, unix.Mkfifo(b.release, 0o600))
	for name, script := range map[string]string{
		"fsck": "exec 3> " + dir + "/begun; echo begun >> " + b.log + "; echo begun >&3; read line < " + b.release + "\n",
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o755))
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	device := loop(t)
	must(t, exec.CommandContext(t.Context(), "mkfs.ext4", "-q", device).Run())
	var st unix.Stat_t
	must(t, unix.Stat(device, &st))
	// A name of its own, which a test may remove.
	b.pv.Spec.Local.Path = filepath.Join(dir, "device")
	must(t, unix.Mknod(b.pv.Spec.Local.Path, unix.S_IFBLK|0o600, int(st.Rdev)))
	s, _ := b.resolved("u1", nil, false)
	return b, s
}

// abandon stages the volume, and ends the call once the check has begun.
func (b *checkBench) abandon(s storage.Staging) error {
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- b.Stage(ctx, s) }()
	begun, err := os.Open(filepath.Join(filepath.Dir(b.log), "begun")) // It returns when the check has opened it.
	must(b.t, err)
	b.t.Cleanup(func() { begun.Close() })
	b.begun = bufio.NewReader(begun)
	if _, err := b.begun.ReadString('\n'); err != nil {
		b.t.Fatal(err)
	}
	cancel()
	return <-done
}

// TestLongCheck: the check of a device continues after the call that began it, and is made once: a check that is killed may
// damage the file system, and one that is always begun again never ends.
func TestLongCheck(t *testing.T) {
	b, s := newCheckBench(t)
	if err := b.abandon(s); storage.OutcomeOf(err) != storage.Unanswered || !strings.Contains(err.Error(), "still being checked") {
		t.Fatalf("%v (outcome %d)", err, storage.OutcomeOf(err))
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Stage(ended, s); storage.OutcomeOf(err) != storage.Unanswered {
		t.Errorf("%v (outcome %d)", err, storage.OutcomeOf(err))
	}
	if err := b.Unstage(ended, s); storage.OutcomeOf(err) != storage.NotSent {
		t.Errorf("unstage during the check: %v (outcome %d)", err, storage.OutcomeOf(err))
	}
	release, err := os.OpenFile(b.release, os.O_WRONLY, 0) // The check waits for it.
	must(t, err)
	defer release.Close()
	_, err = release.WriteString("end\n")
	must(t, err)
	must(t, b.Stage(t.Context(), s))
	if log, err := os.ReadFile(b.log); string(log) != "begun\n" {
		t.Errorf("the checks were %q, %v; want one", log, err)
	}
	table, err := os.ReadFile(mounttable.Path)
	must(t, err)
	if !strings.Contains(string(table), " "+filepath.Join(b.kubelet, "plugins/kubernetes.io/local-volume/mounts/pv")+" ") {
		t.Error("nothing is mounted")
	}
}

// TestCloseEndsCheck: Close ends a check, and waits for its end.
func TestCloseEndsCheck(t *testing.T) {
	b, s := newCheckBench(t)
	_ = b.abandon(s)
	b.Close()
	if rest, err := io.ReadAll(b.begun); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
}

// TestDeviceGone: the mount of a device that is gone before it had an answer, as podexecd was restarted, can't be repeated, and is undone.
// Nothing is mounted then, nor left.
func TestDeviceGone(t *testing.T) {
	b, s := newCheckBench(t)
	if err := b.abandon(s); storage.OutcomeOf(err) != storage.Unanswered {
		t.Fatalf("%v (outcome %d)", err, storage.OutcomeOf(err))
	}
	b.Close()
	b.Backend = New(b.helpers)
	t.Cleanup(b.Backend.Close)
	must(t, os.Remove(b.pv.Spec.Local.Path))
	err := b.Stage(t.Context(), s)
	for storage.OutcomeOf(err) == storage.Unrepeatable && errors.Is(err, foreign.ErrNoAnswer) {
		err = b.Stage(t.Context(), s) // The process of the first call ends now.
	}
	if storage.OutcomeOf(err) != storage.Unrepeatable || !errors.Is(err, unix.ENOENT) {
		t.Errorf("%v (outcome %d)", err, storage.OutcomeOf(err))
	}
	_, p := b.resolved("u1", nil, false)
	if err := b.Publish(t.Context(), p); storage.OutcomeOf(err) != storage.Unrepeatable {
		t.Errorf("publish: %v (outcome %d)", err, storage.OutcomeOf(err))
	}
	must(t, b.Unstage(t.Context(), s))
	at := filepath.Join(b.kubelet, "plugins/kubernetes.io/local-volume/mounts/pv")
	if _, err := os.Lstat(at); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the mount point is left: %v", err)
	}
}

// TestIsGone: with which errors a path is gone. Of each, a wrapped one counts too.
func TestIsGone(t *testing.T) {
	for errno, want := range map[unix.Errno]bool{
		unix.ENOENT: true, unix.ENOTDIR: true, unix.ENXIO: true, unix.ENODEV: true, // the file, or the device
		unix.EIO: true, unix.ESTALE: true, unix.ENOTCONN: true, // the file system
		unix.ENOMEM: false, unix.EINTR: false, 0: false,
	} {
		if got := isGone(fmt.Errorf("look: %w", &foreign.Error{Text: "failed", Errno: errno})); got != want {
			t.Errorf("%v: %v, want %v", errno, got, want)
		}
	}
	if isGone(nil) || isGone(foreign.ErrNoAnswer) {
		t.Error("a path that wasn't looked at is gone")
	}
}

// TestFileSystemDied: a call for a path on a file system whose server has died can't be repeated, so that its volume is undone.
func TestFileSystemDied(t *testing.T) {
	b := newBench(t)
	s, _ := fusetest.File(t, t.TempDir())
	b.pv.Spec.Local.Path = filepath.Join(s.Dir, fusetest.Subdirectory)
	staging, p := b.resolved("u1", nil, false)
	s.Die()
	for name, err := range map[string]error{"stage": b.Stage(t.Context(), staging), "publish": b.Publish(t.Context(), p)} {
		if storage.OutcomeOf(err) != storage.Unrepeatable || !errors.Is(err, unix.ENOTCONN) {
			t.Errorf("%s: %v (outcome %d)", name, err, storage.OutcomeOf(err))
		}
	}
}

// TestDeviceDetached: the path of a loop device that has no file any more is there, and isn't gone. Its mount has an answer, so that the volume
// is undone.
func TestDeviceDetached(t *testing.T) {
	b := newBench(t)
	b.pv.Spec.Local.Path = loop(t)
	s, _ := b.resolved("u1", nil, false)
	must(t, exec.CommandContext(t.Context(), "losetup", "--detach", b.pv.Spec.Local.Path).Run())
	if err := b.Stage(t.Context(), s); storage.OutcomeOf(err) != storage.Final {
		t.Errorf("%v (outcome %d)", err, storage.OutcomeOf(err))
	}
}
