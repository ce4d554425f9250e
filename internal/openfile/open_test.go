package openfile

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/roottest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// soon fails the test if call doesn't return at once; unblock ends a call that waits.
func soon(t *testing.T, call, unblock func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); call() }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		unblock()
		<-done
		t.Error("the call waited")
	}
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// oldKernel makes openat2 fail for the test, as before Linux 5.6.
func oldKernel(t *testing.T) {
	before := openat2
	openat2 = func(int, string, *unix.OpenHow) (int, error) { return -1, unix.ENOSYS }
	t.Cleanup(func() { openat2 = before })
}

func kernels(t *testing.T, test func(t *testing.T)) {
	t.Run("openat2", test)
	t.Run("old", func(t *testing.T) { oldKernel(t); test(t) })
}

func TestOpenFollowsLinks(t *testing.T) {
	kernels(t, func(t *testing.T) {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "file"), "content")
		must(t, os.Symlink("file", filepath.Join(dir, "link")))
		data, err := Read(t.Context(), filepath.Join(dir, "link"), 100)
		if string(data) != "content" || err != nil {
			t.Errorf("read %q, %v", data, err)
		}
	})
}

func TestOpenRefusesWhatIsNotRegular(t *testing.T) {
	kernels(t, func(t *testing.T) {
		dir := t.TempDir()
		fifo, socket := filepath.Join(dir, "fifo"), filepath.Join(dir, "socket")
		must(t, unix.Mkfifo(fifo, 0o600))
		listener, err := net.Listen("unix", socket)
		must(t, err)
		defer listener.Close()
		kmsg, memory := filepath.Join(dir, "kmsg"), filepath.Join(dir, "memory")
		must(t, os.Symlink("/proc/kmsg", kmsg))
		must(t, os.Symlink("/sys/kernel/uevent_seqnum", memory))
		for path, kind := range map[string]string{
			fifo:        "named pipe",
			socket:      "socket",
			dir:         "directory",
			"/dev/zero": "device",
			kmsg:        "file that the kernel generates (procfs)",
			memory:      "file that the kernel generates (sysfs)",
		} {
			soon(t, func() {
				f, err := Open(path)
				if err == nil {
					f.Close()
				}
				var wrong *KindError
				if !errors.As(err, &wrong) || wrong.Kind != kind || wrong.Path != path {
					t.Errorf("open %s: %v, want a KindError of a %s", path, err, kind)
				}
			}, func() {})
		}
	})
}

// A magic link can lead into the mounts of a container, whose file systems the container controls.
func TestOpenFollowsNoMagicLink(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "file"), "content")
	for _, link := range []string{"/proc/self/root" + path, "/proc/self/cwd/open_test.go"} {
		f, err := Open(link)
		if !errors.Is(err, unix.ELOOP) {
			t.Errorf("open %s: %v, want ELOOP", link, err)
		}
		if err == nil {
			f.Close()
		}
	}
}

func TestOpenDoesNotWaitForALease(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "file"), "content")
	holder, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer holder.Close()
	_, err = unix.FcntlInt(holder.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
	must(t, err)
	release := func() {
		_, err := unix.FcntlInt(holder.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
		must(t, err)
	}
	soon(t, func() {
		if f, err := Open(path); !errors.Is(err, ErrLeased) {
			f.Close()
			t.Errorf("open: %v, want ErrLeased", err)
		}
	}, release)
	release()
	if _, err := Read(t.Context(), path, 100); err != nil {
		t.Errorf("after the lease was given up: %v", err)
	}
}

func TestOpenMissing(t *testing.T) {
	kernels(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "missing")
		_, err := Open(path)
		var pathErr *fs.PathError
		if !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &pathErr) || pathErr.Path != path {
			t.Errorf("open: %v", err)
		}
	})
}

func TestOpenBeneath(t *testing.T) {
	kernels(t, func(t *testing.T) {
		outer := t.TempDir()
		dir := filepath.Join(outer, "dir")
		must(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o700))
		write(t, filepath.Join(outer, "secret"), "secret")
		write(t, filepath.Join(dir, "sub", "file"), "content")
		must(t, os.Symlink("../secret", filepath.Join(dir, "out")))
		must(t, os.Symlink("sub", filepath.Join(dir, "in")))
		for name, want := range map[string]error{
			"sub/file": nil, "./sub//file": nil,
			"out": ErrOutside, "in/file": ErrOutside, "../secret": ErrOutside, "/etc/passwd": ErrOutside, "sub/../../secret": ErrOutside,
			"sub/../sub/file": ErrOutside, "missing": fs.ErrNotExist,
		} {
			f, err := OpenBeneath(dir, name)
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
			if err == nil {
				f.Close()
			}
		}
	})
}

func TestOpenDirBeneath(t *testing.T) {
	kernels(t, func(t *testing.T) {
		dir := t.TempDir()
		must(t, os.MkdirAll(filepath.Join(dir, "sub", "dir"), 0o700))
		write(t, filepath.Join(dir, "sub", "dir", "file"), "content")
		must(t, os.Symlink("sub", filepath.Join(dir, "in")))
		for name, want := range map[string]error{
			"sub/dir": nil, "in/dir": ErrOutside, "in": ErrOutside, "..": ErrOutside, "missing": fs.ErrNotExist, "sub/dir/file": unix.ENOTDIR,
		} {
			f, err := OpenDirBeneath(dir, name)
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
			if err == nil {
				if names, err := f.Readdirnames(-1); len(names) != 1 || names[0] != "file" || err != nil {
					t.Errorf("%s has %q, %v", name, names, err)
				}
				f.Close()
			}
		}
	})
}

// TestMountsBeneath: nothing is opened on another mount, without openat2 either.
func TestMountsBeneath(t *testing.T) {
	roottest.Need(t, "mounting")
	kernels(t, func(t *testing.T) {
		dir, other := t.TempDir(), t.TempDir()
		must(t, os.MkdirAll(filepath.Join(dir, "mount"), 0o700))
		must(t, os.MkdirAll(filepath.Join(other, "sub"), 0o700))
		listener, err := net.Listen("unix", filepath.Join(other, "socket")) //nolint:noctx // It doesn't wait.
		must(t, err)
		defer listener.Close()
		at := filepath.Join(dir, "mount")
		roottest.Able(t, unix.Mount(other, at, "", unix.MS_BIND, ""))
		t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
		for _, name := range []string{"mount", "mount/sub"} {
			if f, err := OpenDirBeneath(dir, name); !errors.Is(err, ErrOutside) {
				t.Errorf("%s: %v, %v; want %v", name, f, err, ErrOutside)
			}
		}
		for name, open := range map[string]func(dir, name string) (*Socket, error){"beneath": OpenSocketBeneath, "linked": OpenLinkedSocket} {
			if s, err := open(dir, "mount/socket"); !errors.Is(err, ErrOutside) {
				t.Errorf("the socket, %s: %v, %v; want %v", name, s, err, ErrOutside)
			}
			s, err := open(other, "socket")
			if err != nil {
				t.Errorf("the socket itself, %s: %v", name, err)
				continue
			}
			s.Close()
		}
	})
}

func TestReopenForWriting(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "file"), "content")
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	must(t, err)
	defer func() { must(t, unix.Close(fd)) }()
	f, err := Reopen(fd, path, unix.O_RDWR)
	must(t, err)
	defer f.Close()
	if _, err := f.WriteAt([]byte("C"), 0); err != nil {
		t.Error(err)
	}
	if data, err := os.ReadFile(path); string(data) != "Content" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
}
