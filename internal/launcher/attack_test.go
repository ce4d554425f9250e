package launcher

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// attack is a process of another user: it does what its arguments say, prints a line, and waits for the end of its input.
func attack() {
	what, path := os.Args[1], os.Args[2]
	var err error
	switch what {
	case "lock":
		var fd int
		if fd, err = unix.Open(path, unix.O_RDONLY, 0); err == nil {
			err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		}
	case "listen":
		_, err = net.Listen("unix", path)
	case "toggle":
		// A directory that can't be removed, a socket, and nothing.
		go func() {
			for i := 0; ; i++ {
				_ = unix.Mkdir(path, 0o700)
				_ = unix.Mkdir(path+"/x", 0o700)
				_ = unix.Rmdir(path + "/x")
				_ = unix.Rmdir(path)
				_ = unix.Mknod(path, unix.S_IFSOCK|0o600, 0)
				_ = unix.Unlink(path)
			}
		}()
	}
	fmt.Println("done", err)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// act starts attack as a user with podconfigd's capability, until the end of the test or of the call of stop.
func act(t *testing.T, uid int, what, path string) (stop func()) {
	t.Helper()
	dir := programs(t)
	cmd := exec.Command(filepath.Join(dir, "podconfigd"), what, path)
	cmd.Env = []string{asDaemon + "=attack"}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential:  &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)},
		AmbientCaps: []uintptr{unix.CAP_DAC_READ_SEARCH},
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = func() { _ = in.Close(); _ = cmd.Wait() }
	t.Cleanup(stop)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "done <nil>\n" {
		t.Fatalf("%s %s: %q, %v", what, path, line, err)
	}
	return stop
}

// testRunDir returns the directory of the sockets in a directory, with podconfigd's group as its user has it.
func testRunDir(t *testing.T, dir string) *runDir {
	t.Helper()
	for p := dir; p != os.TempDir() && p != "/"; p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return &runDir{path: filepath.Join(dir, "run"), owner: identity{fallbackID, fallbackID}, log: slog.New(slog.DiscardHandler)}
}

// prepared starts a launcher in whose directory of the sockets podconfigd's user could make entries before.
func prepared(t *testing.T, attack func(run string, uid int)) *launched {
	t.Helper()
	dir := programs(t)
	_, user, _ := reduced()
	run := filepath.Join(dir, "run")
	if err := os.Mkdir(run, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{os.Chown(run, 0, user.gid), unix.Chmod(run, 0o1775)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	attack(run, user.uid)
	return startIn(t, dir, &Launcher{}, source)
}

// makeFull makes a directory that isn't empty, of another user.
func makeFull(t *testing.T, path string, uid int) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(path, "y"), 0o700); err != nil {
		t.Fatal(err)
	}
	chown(t, filepath.Join(path, "y"), uid)
	chown(t, path, uid)
}
