package blockdevice

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/roottest"
)

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// kernels runs the test with openat2, and as on a kernel without it.
func kernels(t *testing.T, test func(t *testing.T, old bool)) {
	t.Run("openat2", func(t *testing.T) { test(t, false) })
	t.Run("old kernel", func(t *testing.T) {
		openat2 = func(int, string, *unix.OpenHow) (int, error) { return -1, unix.ENOSYS }
		defer func() { openat2 = unix.Openat2 }()
		test(t, true)
	})
}

// open opens a directory until the test's end.
func open(t *testing.T, path string) *os.File {
	t.Helper()
	dir, err := os.Open(path)
	must(t, err)
	t.Cleanup(func() { dir.Close() })
	return dir
}

// number is that of a device which no machine has.
var number = Number{Major: 240, Minor: 1 << 19}

// makeNode makes a block device of that number. It can't be opened, only looked at.
func makeNode(t *testing.T, path string) {
	t.Helper()
	must(t, unix.Mknod(path, unix.S_IFBLK|0o600, int(unix.Mkdev(number.Major, number.Minor))))
}

// devices makes a directory of devices, which takes the place of /dev: a block device sdx, and links to it.
func devices(t *testing.T) string {
	t.Helper()
	roottest.Need(t, "mknod")
	was := devDir
	devDir = t.TempDir()
	t.Cleanup(func() { devDir = was })
	makeNode(t, filepath.Join(devDir, "sdx"))
	must(t, os.MkdirAll(filepath.Join(devDir, "disk/by-id"), 0o755), os.Symlink("../../sdx", filepath.Join(devDir, "disk/by-id/x")))
	must(t, os.WriteFile(filepath.Join(devDir, "file"), nil, 0o600), os.Symlink("/etc/passwd", filepath.Join(devDir, "out")))
	return devDir
}

// TestAt: a device, and a link to one in /dev, are found with their number. Nothing else is, and no other link is followed.
func TestAt(t *testing.T) {
	kernels(t, func(t *testing.T, old bool) {
		dev := devices(t)
		elsewhere := filepath.Join(t.TempDir(), "node")
		makeNode(t, elsewhere)
		for name, test := range map[string]struct {
			make func(path string) error
			// path is the device's file. Empty: the file that was looked up.
			path string
			want error
			// links is set if links within /dev must be followed, which needs openat2.
			links bool
		}{
			"a device":             {make: func(p string) error { return os.Link(filepath.Join(dev, "sdx"), p) }},
			"a link":               {make: func(p string) error { return os.Symlink(dev+"/sdx", p) }, path: dev + "/sdx"},
			"a link to a link":     {make: func(p string) error { return os.Symlink(dev+"/disk/by-id/x", p) }, path: dev + "/sdx", links: true},
			"missing":              {make: func(string) error { return nil }, want: fs.ErrNotExist},
			"a link to nothing":    {make: func(p string) error { return os.Symlink(dev+"/sdy", p) }, want: fs.ErrNotExist},
			"a file":               {make: func(p string) error { return os.WriteFile(p, nil, 0o600) }, want: ErrKind},
			"a directory":          {make: func(p string) error { return os.Mkdir(p, 0o700) }, want: ErrKind},
			"a character device":   {make: func(p string) error { return unix.Mknod(p, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))) }, want: ErrKind},
			"a pipe":               {make: func(p string) error { return unix.Mkfifo(p, 0o600) }, want: ErrKind},
			"a link to a file":     {make: func(p string) error { return os.Symlink(dev+"/file", p) }, want: ErrKind},
			"a link elsewhere":     {make: func(p string) error { return os.Symlink(elsewhere, p) }, want: ErrOutside},
			"a relative link":      {make: func(p string) error { return os.Symlink("x", p) }, want: ErrOutside},
			"a link out of /dev":   {make: func(p string) error { return os.Symlink(dev+"/../node", p) }, want: ErrOutside},
			"a link by a link":     {make: func(p string) error { return os.Symlink(dev+"/out", p) }, want: ErrOutside, links: true},
			"the directory itself": {make: func(p string) error { return os.Symlink(dev, p) }, want: ErrOutside},
		} {
			dir := t.TempDir()
			file := filepath.Join(dir, "u")
			must(t, test.make(file))
			d, err := At(open(t, dir), "u")
			want := test.want
			if old && test.links {
				want = unix.ELOOP
			}
			if !errors.Is(err, want) {
				t.Errorf("%s: %v; want %v", name, err, want)
			}
			if err != nil {
				continue
			}
			if test.path == "" {
				test.path = file
			}
			if d.Path != test.path || d.Number != number {
				t.Errorf("%s: %s %v; want %s %v", name, d.Path, d.Number, test.path, number)
			}
			must(t, d.Close())
		}
	})
}

// TestLink: the link leads to the device, whatever link was there. What isn't a link stays.
func TestLink(t *testing.T) {
	dev := devices(t)
	base := t.TempDir()
	dir := open(t, base)
	must(t, os.Symlink(dev+"/sdx", filepath.Join(base, "u")))
	d, err := At(dir, "u")
	must(t, err)
	defer d.Close()
	link := filepath.Join(base, "pv")
	for range 2 {
		must(t, d.Link(dir, "pv"))
		if text, err := os.Readlink(link); text != dev+"/sdx" || !d.IsLinked(dir, "pv") {
			t.Errorf("it leads to %q (%v)", text, err)
		}
	}
	must(t, os.Remove(link), os.Symlink("/etc/passwd", link))
	if d.IsLinked(dir, "pv") {
		t.Error("a link to another file counts as the device's")
	}
	must(t, d.Link(dir, "pv"))
	if !d.IsLinked(dir, "pv") {
		t.Error("a link to another file stays")
	}
	must(t, Unlink(dir, "pv"), Unlink(dir, "pv"))
	must(t, os.WriteFile(link, []byte("data"), 0o600))
	for _, err := range []error{d.Link(dir, "pv"), Unlink(dir, "pv")} {
		if !errors.Is(err, ErrNoLink) {
			t.Errorf("a file in its place: %v", err)
		}
	}
	if text, err := os.ReadFile(link); string(text) != "data" {
		t.Errorf("the file has %q (%v)", text, err)
	}
}

// TestHold: the kernel keeps a device that is held, after all others have closed it, until it is released. Then nothing is left.
func TestHold(t *testing.T) {
	device := roottest.LoopDevice(t)
	base := t.TempDir()
	tag := fmt.Sprintf("test-%d", os.Getpid())
	must(t, os.Symlink(device, filepath.Join(base, "u")))
	d, err := At(open(t, base), "u")
	must(t, err)
	defer d.Close()
	t.Cleanup(func() { _ = Release(tag) })
	if _, is, err := Held(tag); is || err != nil {
		t.Fatalf("held before: %v, %v", is, err)
	}
	for range 2 {
		must(t, d.Hold(tag))
	}
	holders := 0
	must(t, each(tag, func(*os.File, *unix.LoopInfo64) error { holders++; return nil }))
	if n, is, err := Held(tag); n != d.Number || !is || err != nil || holders != 1 {
		t.Errorf("held: %v, %v, %v, by %d loop devices; want %v by one", n, is, err, holders, d.Number)
	}
	inUse := func() bool {
		_, err := os.Stat(filepath.Join("/sys/block", filepath.Base(device), "loop"))
		return err == nil
	}
	must(t, exec.CommandContext(t.Context(), "losetup", "--detach", device).Run())
	if !inUse() {
		t.Error("the device has gone although it is held: its number can be another device's now")
	}
	must(t, Release(tag), Release(tag))
	if _, is, err := Held(tag); is || err != nil {
		t.Errorf("held after Release: %v, %v", is, err)
	}
}

// TestHoldOther: a tag holds the device that was held last.
func TestHoldOther(t *testing.T) {
	base := t.TempDir()
	tag := fmt.Sprintf("other-%d", os.Getpid())
	t.Cleanup(func() { _ = Release(tag) })
	for name, device := range map[string]string{"a": roottest.LoopDevice(t), "b": roottest.LoopDevice(t)} {
		must(t, os.Symlink(device, filepath.Join(base, name)))
		d, err := At(open(t, base), name)
		must(t, err)
		must(t, d.Hold(tag))
		if n, is, err := Held(tag); n != d.Number || !is || err != nil {
			t.Errorf("held: %v, %v, %v; want %v", n, is, err, d.Number)
		}
		must(t, d.Close())
	}
	must(t, Release(tag))
	d := &Device{}
	if err := d.Hold(strings.Repeat("x", maxTag+1)); err == nil {
		t.Error("a tag that the kernel would cut is accepted")
	}
}
