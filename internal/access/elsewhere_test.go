package access

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A process with the daemon's own uid, other than root's, is an operator only if it has the daemon's mounts: a pod
// with that uid and a hostPath of the socket's directory has no role.
func TestOwnUserElsewhere(t *testing.T) {
	a, err := New(Config{AllowUIDs: []uint32{7}})
	if err != nil {
		t.Fatal(err)
	}
	a.own = 65532
	for _, tc := range []struct {
		name      string
		uid       uint32
		elsewhere bool
		want      Role
	}{
		{"the daemon's user", 65532, false, Operator},
		{"a pod's user", 65532, true, None},
		{"root", 0, true, Operator},
		{"an allowed user in a container", 7, true, Consumer},
	} {
		i := &AuthInfo{Peer: uidIdentity(tc.uid), Unix: &unix.Ucred{Uid: tc.uid}, Elsewhere: tc.elsewhere}
		if got := a.caller(i, a.rules.Load()).Role; got != tc.want {
			t.Errorf("%s has the role %v, want %v", tc.name, got, tc.want)
		}
	}
}

// Nor is it an owner for the services, whatever role a rule gives it.
func TestOwnerElsewhere(t *testing.T) {
	defer func(before uint32) { self = before }(self)
	self = 65532
	a, err := New(Config{AllowUIDs: []uint32{7, self}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		uid             uint32
		elsewhere, want bool
	}{{0, false, true}, {0, true, true}, {self, false, true}, {self, true, false}, {7, false, false}} {
		i := &AuthInfo{Peer: uidIdentity(tc.uid), Unix: &unix.Ucred{Uid: tc.uid}, Elsewhere: tc.elsewhere}
		if got := a.caller(i, a.rules.Load()); got.IsOwner() != tc.want || got.Role < Consumer {
			t.Errorf("%+v: an owner %v; want %v, and a role", got, got.IsOwner(), tc.want)
		}
	}
}

func TestElsewhere(t *testing.T) {
	if elsewhere(int32(os.Getpid())) { //nolint:gosec // Pids have 22 bits.
		t.Error("this process is elsewhere")
	}
	if !elsewhere(0) || !elsewhere(-1) {
		t.Error("a process that can't be seen isn't elsewhere")
	}
	if os.Geteuid() != 0 {
		return // The rest needs a mount namespace.
	}
	other := exec.Command("sleep", "60")
	other.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	}()
	if !elsewhere(int32(other.Process.Pid)) { //nolint:gosec // Pids have 22 bits.
		t.Error("a process with mounts of its own isn't elsewhere")
	}
}

// Arrive asks the kernel about the process that connected.
func TestArriveOfOwnProcess(t *testing.T) {
	a, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	conn := connected(t, "unix", filepath.Join(t.TempDir(), "s"))
	if arrival, err := a.Arrive(conn); err != nil || !arrival.Owner || arrival.Stranger {
		t.Errorf("this process arrives as %+v, %v; want the owner", arrival, err)
	}
}
