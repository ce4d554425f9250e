package doctor

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/roottest"
)

// bind returns a socket that listens at the path.
func bind(t *testing.T, path string) *os.File {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	defer func() { _ = l.Close() }()
	file, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file
}

// holder returns a process that has these files, and closes them here.
func holder(t *testing.T, files ...*os.File) (pid int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "cat")
	cmd.ExtraFiles = files
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	for _, f := range files {
		_ = f.Close()
	}
	return cmd.Process.Pid
}

// Any user can have sockets that were bound to the path of podexecd's, in a mount namespace of his own or, as here, by
// a rename. Their process must not be taken for podexecd: doctor uses the kubeconfig that its flags name.
func TestHeirOfTheSocketItself(t *testing.T) {
	roottest.Need(t, "a look at other processes' sockets")
	dir := t.TempDir()
	path := filepath.Join(dir, "podexecd.sock")
	var others []*os.File
	for i := range 32 {
		others = append(others, bind(t, path))
		if err := os.Rename(path, filepath.Join(dir, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	attacker := holder(t, others[:16]...)
	own := bind(t, path)
	if pid, err := heir(path); err != nil || pid != os.Getpid() {
		t.Errorf("process %d has the socket, %v; want this one, %d, and not %d", pid, err, os.Getpid(), attacker)
	}
	podexecd := holder(t, own)
	holder(t, others[16:]...)
	if pid, err := heir(path); err != nil || pid != podexecd {
		t.Errorf("process %d has the socket, %v; want %d, and not %d", pid, err, podexecd, attacker)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	bind(t, path)
	if pid, err := heir(path); err != nil || pid != os.Getpid() {
		t.Errorf("after the socket was replaced, process %d has it, %v; want this one, %d", pid, err, os.Getpid())
	}
	if pid, err := heir("/nowhere"); err == nil {
		t.Errorf("process %d listens at /nowhere", pid)
	}
}

// The flags of another user's process aren't believed, even if it has taken the path of podexecd's socket.
func TestListenerOfAnotherUser(t *testing.T) {
	roottest.Need(t, "a change of the user")
	const user = 54321
	path := filepath.Join(t.TempDir(), "s")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	become := func(uid int) {
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
			t.Fatal(errno)
		}
	}
	// Only this thread has another user meanwhile.
	runtime.LockOSThread()
	become(user)
	err = unix.Listen(fd, 1)
	become(0)
	runtime.UnlockOSThread()
	if err != nil {
		t.Fatal(err)
	}
	if pid, err := listener(path); err == nil || !strings.Contains(err.Error(), fmt.Sprint(user)) {
		t.Errorf("process %d is taken for podexecd, %v; want an error that names user %d", pid, err, user)
	}
}
