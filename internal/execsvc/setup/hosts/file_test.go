package hosts

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/openfile"
)

func TestUpdateReachesRunningContainers(t *testing.T) {
	in := inputOf(t)
	path := filepath.Join(in.PodDir, name)
	first := mounted(t, in)
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	longer := []string{"10.1.0.7", "fd00::7"}
	for _, ips := range [][]string{longer, {"10.1.0.8"}, longer, {"10.1.0.7"}} {
		in.PodIPs = ips
		want := mounted(t, in)
		if want == first && len(ips) > 1 {
			t.Fatal("the file doesn't depend on the addresses")
		}
		got, err := io.ReadAll(io.NewSectionReader(file, 0, 1<<20))
		if err != nil || string(got) != want {
			t.Errorf("%v: a running container sees %q, %v; want %q", ips, got, err, want)
		}
	}
}

func TestUpdateWritesOnlyChanges(t *testing.T) {
	in := inputOf(t)
	text, path := mounted(t, in), filepath.Join(in.PodDir, name)
	then := time.Unix(1_000_000_000, 0)
	if err := os.Chtimes(path, then, then); err != nil {
		t.Fatal(err)
	}
	if got := mounted(t, in); got != text {
		t.Errorf("%q; want %q", got, text)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if !info.ModTime().Equal(then) {
		t.Error("the file was written again")
	}
}

func TestUpdateRepairsTheFile(t *testing.T) {
	in := inputOf(t)
	want, path := mounted(t, in), filepath.Join(in.PodDir, name)
	for had, text := range map[string]string{
		"nothing, as after a kill":   "",
		"a half":                     want[:len(want)/2],
		"more":                       want + "6.6.6.6\tbank.example\n",
		"something else of its size": strings.Repeat("x", len(want)),
		"more than is blanked":       strings.Repeat("x", maxBlank+5),
	} {
		if err := os.WriteFile(path, []byte(text), 0); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := mounted(t, in); got != want {
			t.Errorf("%s: %d bytes, want %d", had, len(got), len(want))
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != 0o644 {
			t.Errorf("%s: the mode is %v", had, info.Mode())
		}
	}
}

func TestUpdateCreatesAReadableFileUnderAnyUmask(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	in := inputOf(t)
	mounted(t, in)
	info, err := os.Stat(filepath.Join(in.PodDir, name))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o644 {
		t.Errorf("the mode is %v", info.Mode())
	}
}

// A container can create a sparse file of terabytes for free: replacing it must be as cheap.
func TestUpdateOfAHugeFile(t *testing.T) {
	in := inputOf(t)
	want, path := mounted(t, in), filepath.Join(in.PodDir, name)
	if err := os.Truncate(path, 1<<40); err != nil {
		t.Fatal(err)
	}
	if got := mounted(t, in); got != want {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
}

func TestUpdateDoesNotFollowALink(t *testing.T) {
	in := inputOf(t)
	elsewhere := filepath.Join(t.TempDir(), "passwd")
	if err := os.WriteFile(elsewhere, []byte("root"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(in.PodDir, name)); err != nil {
		t.Fatal(err)
	}
	if got, err := Mount(in); err == nil {
		t.Errorf("%v", got)
	}
	if got := read(t, elsewhere); got != "root" {
		t.Errorf("the link's target is %q now", got)
	}
}

// A file of another type doesn't block.
func TestUpdateDoesNotWait(t *testing.T) {
	in := inputOf(t)
	if err := unix.Mkfifo(filepath.Join(in.PodDir, name), 0o644); err != nil {
		t.Fatal(err)
	}
	var kind *openfile.KindError
	if got, err := Mount(in); !errors.As(err, &kind) {
		t.Errorf("a FIFO: %v, %v", got, err)
	}
	in = inputOf(t)
	mounted(t, in)
	file, err := os.OpenFile(filepath.Join(in.PodDir, name), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Fatal(err)
	}
	if got, err := Mount(in); !errors.Is(err, openfile.ErrLeased) {
		t.Errorf("a lease: %v, %v", got, err)
	}
}
