package subpath

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/openfile"
)

// onEachKernel runs the test with openat2, and as on kernels that lack or forbid it.
func onEachKernel(t *testing.T, test func(t *testing.T)) {
	t.Run("openat2", test)
	for name, errno := range map[string]error{"old kernel": unix.ENOSYS, "forbidden": unix.EPERM} {
		t.Run(name, func(t *testing.T) {
			openat2 = func(int, string, *unix.OpenHow) (int, error) { return -1, errno }
			defer func() { openat2 = unix.Openat2 }()
			test(t)
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write writes a file and its directories.
func write(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o644))
}

// links creates links by name and text in dir.
func links(t *testing.T, dir string, texts map[string]string) {
	t.Helper()
	for name, text := range texts {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		must(t, os.Symlink(text, filepath.Join(dir, name)))
	}
}

// volume creates a volume beside an outside directory, and returns the volume's configured path, which is a link.
func volume(t *testing.T) (given, resolved, outside string) {
	t.Helper()
	base := t.TempDir()
	given, resolved, outside = filepath.Join(base, "given"), filepath.Join(base, "real", "vol"), filepath.Join(base, "real", "volume2")
	write(t, filepath.Join(resolved, "file"), "inside")
	write(t, filepath.Join(resolved, "dir", "file"), "inside")
	write(t, filepath.Join(outside, "file"), "outside")
	must(t, os.Symlink("real/vol", given))
	links(t, resolved, map[string]string{
		"tofile":       "dir/file",
		"todir":        "dir",
		"chain":        "todir/../todir/./file",
		"dir/up":       "../file",
		"dir/self":     "../dir",
		"absolute":     filepath.Join(resolved, "dir"),
		"asgiven":      filepath.Join(given, "dir"),
		"outandback":   "../vol/file",
		"farandback":   filepath.Join(outside, "..", "vol", "dir"),
		"out":          filepath.Join(outside, "file"),
		"outdir":       outside,
		"sibling":      "../volume2/file",
		"parent":       "..",
		"slash":        "/",
		"toolong":      strings.Repeat("../", 100) + outside[1:] + "/file",
		"hidden":       "todir/../../volume2",
		"outtonothing": "/nonexistent/podstream",
		"loop":         "loop2",
		"loop2":        "loop",
		"nowhere":      "missing",
		"itself":       "itself/file",
	})
	return given, resolved, outside
}

func TestOpenBeneath(t *testing.T) {
	onEachKernel(t, func(t *testing.T) {
		given, _, _ := volume(t)
		for _, path := range []string{
			"file", "./file", "dir//file", "tofile", "todir/file", "chain", "dir/up", "dir/self/self/file", "absolute/file", "asgiven/file",
			"outandback", "farandback/file",
		} {
			f, err := OpenBeneath(given, path)
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			if text, err := io.ReadAll(f); err != nil || string(text) != "inside" {
				t.Errorf("%s holds %q (%v)", path, text, err)
			}
			must(t, f.Close())
		}
	})
}

func TestOpenBeneathRefuses(t *testing.T) {
	onEachKernel(t, func(t *testing.T) {
		given, resolved, _ := volume(t)
		must(t, unix.Mkfifo(filepath.Join(resolved, "fifo"), 0o666))
		l, err := net.Listen("unix", filepath.Join(resolved, "socket"))
		must(t, err)
		defer l.Close()
		for path, want := range map[string]error{
			"out": ErrOutside, "outdir": ErrOutside, "outdir/file": ErrOutside, "sibling": ErrOutside, "parent": ErrOutside,
			"parent/volume2/file": ErrOutside, "slash": ErrOutside, "slash/etc/passwd": ErrOutside, "toolong": ErrOutside,
			"hidden/file": ErrOutside, "outtonothing": ErrOutside, "outtonothing/x": ErrOutside,
			"loop": unix.ELOOP, "loop/file": unix.ELOOP, "itself": unix.ELOOP,
			"missing": fs.ErrNotExist, "nowhere": fs.ErrNotExist, "dir/missing/file": fs.ErrNotExist,
			"file/x": unix.ENOTDIR, "fifo/x": unix.ENOTDIR,
			strings.Repeat("n", 256): unix.ENAMETOOLONG, strings.Repeat("d/", 5000): unix.ENAMETOOLONG,
			"dir": nil, "fifo": nil, "socket": nil, "": nil, ".": nil, "..": nil, "../volume2/file": nil, "dir/../file": nil,
			"dir/../../volume2/file": nil, "/file": nil, "/": nil, "fi\x00le": nil,
		} {
			f, err := OpenBeneath(given, path)
			if err == nil {
				t.Errorf("%.40q is opened", path)
				f.Close()
			}
			if want != nil && !errors.Is(err, want) {
				t.Errorf("%.40q: error %v, want %v", path, err, want)
			}
		}
		_, err = OpenBeneath(given, "out")
		if want := `subpath "out" not within volume path`; err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
		for _, root := range []string{"vol", filepath.Join(resolved, "file"), filepath.Join(resolved, "missing"), ""} {
			if _, err := OpenBeneath(root, "file"); err == nil {
				t.Errorf("%q is taken for a volume", root)
			}
		}
	})
}

// The error doesn't show the target of a link to outside, nor whether it exists.
func TestErrorsRevealNothingOfTheNode(t *testing.T) {
	_, resolved, outside := volume(t)
	links(t, resolved, map[string]string{"there": outside + "/file/x", "notthere": outside + "/none/x"})
	_, there := OpenBeneath(resolved, "there")
	_, notThere := OpenBeneath(resolved, "notthere")
	if there == nil || notThere == nil || strings.Replace(notThere.Error(), "notthere", "there", 1) != there.Error() {
		t.Errorf("errors %v and %v differ", there, notThere)
	}
}

// The links of /proc don't lead to the path that is their text.
func TestMagicLinks(t *testing.T) {
	onEachKernel(t, func(t *testing.T) {
		f, err := os.Open("/etc/passwd")
		must(t, err)
		defer f.Close()
		opened := strings.TrimPrefix(byDescriptor(int(f.Fd())), "/proc/")
		for _, path := range []string{"self/root/etc/passwd", "self/cwd/open_test.go", opened} {
			if f, err := OpenBeneath("/proc", path); !errors.Is(err, ErrOutside) {
				t.Errorf("%s: error %v, want ErrOutside", path, err)
				f.Close()
			}
		}
		var kind *openfile.KindError
		if _, err = OpenBeneath("/proc", "self/status"); !errors.As(err, &kind) {
			t.Errorf("a link of /proc to /proc: %v; want that the kernel generates the file", err)
		}
	})
}

// A container that holds a lease on a file doesn't block the reader.
func TestOpenBeneathOfALeasedFile(t *testing.T) {
	onEachKernel(t, func(t *testing.T) {
		given, resolved, _ := volume(t)
		f, err := os.OpenFile(filepath.Join(resolved, "file"), os.O_RDWR, 0)
		must(t, err)
		defer f.Close()
		_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
		must(t, err)
		if _, err := OpenBeneath(given, "file"); !errors.Is(err, openfile.ErrLeased) {
			t.Errorf("error %v, want ErrLeased", err)
		}
	})
}

// A checked entry may be a link by the time it is opened.
func TestOpenPlainFollowsNothing(t *testing.T) {
	onEachKernel(t, func(t *testing.T) {
		given, _, _ := volume(t)
		r, err := openRoot(given)
		must(t, err)
		defer r.close()
		for _, path := range []string{
			"tofile", "todir", "todir/file", "outdir/file", "slash/etc", "loop", "..", "dir/../../volume2", "/", "/etc",
		} {
			fd, err := openPlain(r.fd, path)
			if err == nil {
				where, _ := os.Readlink(byDescriptor(fd))
				unix.Close(fd)
				if !within(r.real, where) || strings.HasPrefix(path, "to") {
					t.Errorf("%s opens %s", path, where)
				}
			}
		}
	})
}
