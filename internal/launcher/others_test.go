package launcher

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/roottest"
)

// TestOthers: a daemon that ends soon is awaited; one that goes on keeps the launcher from starting, and is named.
func TestOthers(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "podexecd.sock.lock")
	lock, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	fd := int(lock.Fd())
	if err := unix.Flock(fd, unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	_, err = awaitOthers(t.Context(), dir, 10*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "a podexecd runs already, and holds "+path) {
		t.Errorf("with a podexecd: %v", err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if warning, err := awaitOthers(stopped, dir, time.Minute); err != nil || warning != "" {
		t.Errorf("with a podexecd, at the launcher's end: %v", err)
	}
	ended := make(chan error, 1)
	time.AfterFunc(20*time.Millisecond, func() { ended <- unix.Flock(fd, unix.LOCK_UN) })
	warning, err := awaitOthers(t.Context(), dir, 20*time.Second)
	if err := errors.Join(err, <-ended); err != nil || warning != "" {
		t.Errorf("with a podexecd that ends: %q, %v", warning, err)
	}
}

// listenAs makes a listening socket, and gives its file to a user.
func listenAs(t *testing.T, path string, uid int) *net.UnixListener {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	chown(t, path, uid)
	return listener
}

// TestSocketUnits: systemd's socket units keep the launcher from starting, as their daemons would. Nothing connects to the sockets.
func TestSocketUnits(t *testing.T) {
	roottest.Need(t, "it gives sockets to another user")
	for name, uid := range map[string]int{"podconfigd": fallbackID, "podexecd": 0} {
		dir := t.TempDir()
		listener := listenAs(t, filepath.Join(dir, name+".sock"), uid)
		_, err := awaitOthers(t.Context(), dir, 10*time.Millisecond)
		for _, want := range []string{dir + "/" + name + ".sock already", name + ".socket;", "systemctl disable --now " + name + ".socket " + name} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("with %s.socket: %v; want %q", name, err, want)
			}
		}
		if err := listener.SetDeadline(time.Now()); err != nil {
			t.Fatal(err)
		}
		if conn, err := listener.Accept(); err == nil {
			_ = conn.Close()
			t.Errorf("a connection would have started %s", name)
		}
		// One that a daemon left behind.
		listener.SetUnlinkOnClose(false)
		_ = listener.Close()
		if warning, err := awaitOthers(t.Context(), dir, 10*time.Millisecond); err != nil || warning != "" {
			t.Errorf("with a socket of %s without a listener: %q, %v", name, warning, err)
		}
	}
}

// TestFalseListeners: a user's own sockets don't keep the launcher from starting, whatever their names are.
func TestFalseListeners(t *testing.T) {
	roottest.Need(t, "it starts processes of other users")
	dir := t.TempDir()
	run := testRunDir(t, dir)
	if err := errors.Join(run.forPodexecd(), run.forPodconfigd()); err != nil {
		t.Fatal(err)
	}
	// The kernel's list of paths has these names. In a mount namespace of its own, any user can give a socket such a name.
	for _, name := range []string{podconfigdSocket, podexecdSocket} {
		path := filepath.Join(run.path, name)
		_ = os.Remove(path)
		listenAs(t, path, 0)
		if err := os.Rename(path, path+".other"); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mknod(path, unix.S_IFSOCK|0o600, 0); err != nil {
			t.Fatal(err)
		}
	}
	if warning, err := awaitOthers(t.Context(), run.path, 10*time.Millisecond); err != nil || warning != "" {
		t.Errorf("with sockets of these names elsewhere: %q, %v", warning, err)
	}
	for _, name := range []string{podconfigdSocket, podexecdSocket} {
		if err := os.Remove(filepath.Join(run.path, name)); err != nil {
			t.Fatal(err)
		}
		act(t, run.owner.uid, "listen", filepath.Join(run.path, name))
	}
	warning, err := awaitOthers(t.Context(), run.path, 10*time.Millisecond)
	if err != nil || !strings.Contains(warning, podconfigdSocket) {
		t.Errorf("with sockets of podconfigd's user: %q, %v; want a warning of podconfigd's", warning, err)
	}
}

// TestFalseLocks: podconfigd's user holds podconfigd's lock, and podconfigd podexecd's, which it can read. podexecd starts, and
// can lock its file.
func TestFalseLocks(t *testing.T) {
	roottest.Need(t, "it starts processes of another user")
	dir := programs(t)
	run := testRunDir(t, dir)
	if err := errors.Join(run.forPodexecd(), run.forPodconfigd()); err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(run.path, podexecdSocket+lockSuffix)
	own := filepath.Join(run.path, podconfigdSocket+lockSuffix)
	if err := os.WriteFile(own, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	chown(t, own, run.owner.uid)
	act(t, run.owner.uid, "lock", own)
	act(t, run.owner.uid, "lock", lock)
	if warning, err := awaitOthers(t.Context(), run.path, 10*time.Millisecond); err != nil || !strings.Contains(warning, "podconfigd.sock.lock") {
		t.Errorf("with locks of podconfigd's user: %q, %v; want a warning of podconfigd's", warning, err)
	}
	if err := run.forPodexecd(); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(lock, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Errorf("podexecd can't lock %s: %v", lock, err)
	}
}

// TestHeldLock: a process of podconfigd's user that holds podconfigd's lock doesn't keep the launcher from starting.
func TestHeldLock(t *testing.T) {
	roottest.Need(t, "it starts a process of another user")
	l := prepared(t, func(run string, uid int) {
		path := filepath.Join(run, podconfigdSocket+lockSuffix)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		chown(t, path, uid)
		act(t, uid, "lock", path)
	})
	l.await("level=WARN msg=\"podconfigd's socket is in use, and podexecd starts all the same\"")
	l.started("podconfigd", "podexecd")
	l.stop()
	l.ends(0)
}

// TestTwoLaunchers: a second launcher doesn't start, also while no daemon of the first one holds a lock.
func TestTwoLaunchers(t *testing.T) {
	l := start(t, source)
	l.started("podconfigd", "podexecd")
	var out bytes.Buffer
	second := &Launcher{Programs: l.dir, Sockets: filepath.Join(l.dir, "run"), Environ: []string{asDaemon + "=daemon"}, Stdout: &out, Stderr: &out}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if code := second.Run(ctx, []string{source, "--root-dir=" + filepath.Join(l.dir, "kubelet")}); code != 1 || !strings.Contains(out.String(), "a launcher runs already") {
		t.Errorf("a second launcher: exit code %d:\n%s", code, &out)
	}
	l.stop()
	l.ends(0)
}

// TestInUnit: only the cgroup of the system's service counts.
func TestInUnit(t *testing.T) {
	for cgroups, want := range map[string]bool{
		"0::/system.slice/podconfigd.service\n":                                     true,
		"9:pids:/\n1:name=systemd:/system.slice/podconfigd.service\n0::/\n":         true,
		"0::/user.slice/user-9.slice/user@9.service/app.slice/podconfigd.service\n": false,
		"0::/kubepods/pod1/system.slice/podconfigd.service\n":                       false,
		"0::/system.slice/podconfigd.service.d\n":                                   false,
		"": false,
	} {
		if got := inUnit(cgroups, "podconfigd.service"); got != want {
			t.Errorf("inUnit(%q) is %v", cgroups, got)
		}
	}
}
