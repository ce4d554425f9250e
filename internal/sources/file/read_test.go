package file

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/manifest"
)

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t, unix.Mkfifo(at("fifo"), 0o644))
	socket, err := net.Listen("unix", at("socket"))
	must(t, err)
	defer socket.Close()
	must(t, os.Symlink("/dev/null", at("device")))
	must(t, os.Mkdir(at("dir"), 0o755))
	must(t, os.Symlink("dir", at("dirlink")))
	must(t, os.Symlink("nowhere", at("dangling")))
	must(t, os.Symlink("loop", at("loop")))
	write(t, at("file"), "x")
	write(t, at("big"), "")
	must(t, os.Truncate(at("big"), 11<<20))

	tests := []struct{ name, want string }{
		{"fifo", "is a named pipe, not a regular file"},
		{"socket", "is a socket, not a regular file"},
		{"device", "is a device, not a regular file"},
		{"dirlink", "is a symbolic link to a directory, not a regular file"},
		{"dangling", "is a symbolic link to nowhere, which doesn't exist"},
		{"loop", "can't be opened: too many levels of symbolic links"},
		{"big", "is 11534336 bytes; at most 10485760 are read"},
		{"dir", errGone.Error()},
		{"nothing", errGone.Error()},
		{"file/below", errGone.Error()},
	}
	for _, test := range tests {
		f, _, err := open(at(test.name))
		if err == nil {
			f.Close()
			t.Errorf("%s: opened, want an error", test.name)
		} else if err.Error() != test.want {
			t.Errorf("%s: %q, want %q", test.name, err, test.want)
		}
	}
}

// TestReadAllNoticesChanges: a file that changes while it is read isn't stable, and one that grows beyond the limit
// isn't read to its end.
func TestReadAllNoticesChanges(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.yaml")
	write(t, path, "first")
	f, version, err := open(path)
	must(t, err)
	defer f.Close()
	if data, stable, err := readAll(t.Context(), f, version); string(data) != "first" || !stable || err != nil {
		t.Errorf("unchanged: %q, stable %v, %v", data, stable, err)
	}

	_, err = f.Seek(0, 0)
	must(t, err)
	write(t, path, "second, longer")
	if data, stable, err := readAll(t.Context(), f, version); string(data) != "second, longer" || stable || err != nil {
		t.Errorf("changed: %q, stable %v, %v", data, stable, err)
	}

	_, err = f.Seek(0, 0)
	must(t, err)
	must(t, os.Truncate(path, manifest.MaxSize+2))
	if _, stable, err := readAll(t.Context(), f, version); stable || err == nil || !strings.HasPrefix(err.Error(), "is 10485762 bytes") {
		t.Errorf("grown: stable %v, %v", stable, err)
	}
}

// leasable skips the test if the kernel doesn't report writers.
func leasable(t *testing.T) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "probe")
	write(t, path, "")
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	if writersOf(f) != writersUnknown {
		return
	}
	if os.Getenv("PODSTREAM_REQUIRE_RUNTIME") != "" {
		t.Fatal("no leases on the file system of temporary files; set TMPDIR to another")
	}
	t.Skip("no leases on the file system of temporary files: TMPDIR=/dev/shm go test ./internal/sources/file")
}

func TestWritersOf(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.yaml")
	write(t, path, "x")
	leasable(t)
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	if got := writersOf(f); got != writersNone {
		t.Errorf("there is no writer: %v", got)
	}
	w, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	if got := writersOf(f); got != writersSome {
		t.Errorf("there is a writer: %v", got)
	}
	must(t, w.Close())
	if got := writersOf(f); got != writersNone {
		t.Errorf("there is no longer a writer: %v", got)
	}

	null, err := os.Open(os.DevNull)
	must(t, err)
	defer null.Close()
	if got := writersOf(null); got != writersUnknown {
		t.Errorf("no leases are to be had: %v", got)
	}
}

// TestBrokenLeaseIsHarmless: the SIGIO that is sent when a writer breaks the lease doesn't end the process, and
// the writer continues.
func TestBrokenLeaseIsHarmless(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.yaml")
	write(t, path, "x")
	leasable(t)
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	must(t, err)

	opened := make(chan error)
	go func() {
		w, err := os.OpenFile(path, os.O_WRONLY, 0)
		opened <- errors.Join(err, w.Close())
	}()
	// The kernel shows the lease's next type once it has sent the signal.
	for lease := unix.F_RDLCK; lease != unix.F_UNLCK; {
		lease, err = unix.FcntlInt(f.Fd(), unix.F_GETLEASE, 0)
		must(t, err)
		runtime.Gosched()
	}
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	must(t, err)
	must(t, <-opened)
}
