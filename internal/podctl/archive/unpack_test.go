package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// withUmask sets the umask of a test.
func withUmask(t *testing.T, mask int) {
	t.Helper()
	before := syscall.Umask(mask)
	t.Cleanup(func() { syscall.Umask(before) })
}

// A file goes to the path, or into the directory that the path is; what is below a directory goes below the path.
func TestUnpack(t *testing.T) {
	withUmask(t, 0o022)
	directory := []part{dir("d"), withMode(file("d/a", "A"), 0o640), withMode(dir("d/sub"), 0o700), withMode(file("d/sub/b", "B"), 0o777), dir("d/empty")}
	want := map[string]string{
		"a": "-rw-r----- A", "sub": "drwx------", "sub/b": "-rwxr-xr-x B", "empty": "drwxr-xr-x",
	}
	below := func(name string, files map[string]string) map[string]string {
		out := map[string]string{name: "drwxr-xr-x"}
		for k, v := range files {
			out[name+"/"+k] = v
		}
		return out
	}
	dotted := []part{dir("."), file("./a", "A"), dir("./..data"), file("./..data/b", "B")}
	for name, tc := range map[string]struct {
		parts       []part
		asked       string
		path        string
		before      func(dest string) error
		want        map[string]string
		wantSkipped int
	}{
		"a file to a new name":               {[]part{file("d", "A")}, "d", "new", nil, map[string]string{"new": "-rw-r--r-- A"}, 0},
		"a file into a directory":            {[]part{file("d", "A")}, "d", ".", nil, map[string]string{"base": "-rw-r--r-- A"}, 0},
		"a file with a dot":                  {[]part{file("./d", "A")}, "d", "new", nil, map[string]string{"new": "-rw-r--r-- A"}, 0},
		"a directory to a new name":          {directory, "d", "new", nil, below("new", want), 0},
		"a directory to a name with a slash": {directory, "d", "new/", nil, below("new", want), 0},
		"a directory into an existing one":   {directory, "d", ".", nil, want, 0},
		"all of a directory":                 {dotted, ".", ".", nil, map[string]string{"a": "-rw-r--r-- A", "..data": "drwxr-xr-x", "..data/b": "-rw-r--r-- B"}, 0},
		"a file that exists": {[]part{file("d", "new")}, "d", "f", func(dest string) error {
			return os.WriteFile(filepath.Join(dest, "f"), []byte("old"), 0o600)
		}, map[string]string{"f": "-rw-r--r-- new"}, 0},
		"a directory that exists keeps its mode": {[]part{withMode(dir("d"), 0o777), withMode(dir("d/sub"), 0o777), file("d/sub/b", "B")}, "d", ".", func(dest string) error {
			return os.Mkdir(filepath.Join(dest, "sub"), 0o700)
		}, map[string]string{"sub": "drwx------", "sub/b": "-rw-r--r-- B"}, 0},
		"a directory that forbids writing": {[]part{dir("d"), withMode(dir("d/ro"), 0o555), file("d/ro/a", "A"), file("d/z", "Z")}, "d", ".", nil,
			map[string]string{"ro": "dr-xr-xr-x", "ro/a": "-rw-r--r-- A", "z": "-rw-r--r-- Z"}, 0},
		"directories in another order": {[]part{dir("d"), dir("d/x"), dir("d/y"), file("d/x/1", "1"), file("d/y/2", "2"), file("d/x/3", "3")}, "d", ".", nil,
			map[string]string{"x": "drwxr-xr-x", "y": "drwxr-xr-x", "x/1": "-rw-r--r-- 1", "y/2": "-rw-r--r-- 2", "x/3": "-rw-r--r-- 3"}, 0},
		"a directory in place of a file": {[]part{dir("d"), dir("d/x"), file("d/x/1", "1"), file("d/y", "Y")}, "d", ".", func(dest string) error {
			return os.WriteFile(filepath.Join(dest, "x"), []byte("kept"), 0o600)
		}, map[string]string{"x": "-rw------- kept", "y": "-rw-r--r-- Y"}, 2},
		"a file in place of a directory": {[]part{dir("d"), file("d/x", "1"), file("d/y", "Y")}, "d", ".", func(dest string) error {
			return os.Mkdir(filepath.Join(dest, "x"), 0o700)
		}, map[string]string{"x": "drwx------", "y": "-rw-r--r-- Y"}, 1},
		"a long name": {[]part{dir("d"), file("d/"+strings.Repeat("n", maxElement), "A")}, "d", ".", nil,
			map[string]string{strings.Repeat("n", maxElement): "-rw-r--r-- A"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dest := t.TempDir()
			if tc.before != nil {
				if err := tc.before(dest); err != nil {
					t.Fatal(err)
				}
			}
			path := filepath.Join(dest, tc.path)
			if strings.HasSuffix(tc.path, "/") {
				path += "/"
			}
			o := unpackTo(bytes.NewReader(archived(t, tc.parts...)), tc.asked, standard, path, "base")
			if o.err != nil || len(o.skipped) != tc.wantSkipped {
				t.Errorf("%v, skipped %q", o.err, o.skipped)
			}
			if diff := cmp.Diff(tc.want, treeOf(t, dest)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

// A file that is replaced isn't written to: another name of it keeps its content.
func TestUnpackReplaces(t *testing.T) {
	dest := t.TempDir()
	if err := os.WriteFile(filepath.Join(dest, "other"), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(dest, "other"), filepath.Join(dest, "f")); err != nil {
		t.Fatal(err)
	}
	if o := unpackTo(bytes.NewReader(archived(t, file("d", "new"))), "d", standard, filepath.Join(dest, "f"), "d"); o.err != nil {
		t.Fatal(o.err)
	}
	if kept, err := os.ReadFile(filepath.Join(dest, "other")); err != nil || string(kept) != "kept" {
		t.Errorf("the other name has %q, %v", kept, err)
	}
}

// An archive that ends early leaves no part of a file, and what was complete stays.
func TestUnpackTruncated(t *testing.T) {
	whole := archived(t, dir("d"), file("d/first", "1"), file("d/second", strings.Repeat("2", 2000)))
	for _, size := range []int{len(whole) - 1024 - 600, 512 + 1024 + 512 + 100, 512 + 1024 + 100} {
		dest := t.TempDir()
		o := unpackTo(bytes.NewReader(whole[:size]), "d", standard, dest, "d")
		if !errors.Is(o.err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes: %v", size, o.err)
		}
		if diff := cmp.Diff(map[string]string{"first": "-rw-r--r-- 1"}, treeOf(t, dest)); diff != "" && size > 512+1024+512 {
			t.Errorf("%d bytes (-want +got):\n%s", size, diff)
		}
	}
	for name, data := range map[string][]byte{"empty": {}, "only an end": make([]byte, 1024), "noise": bytes.Repeat([]byte("noise"), 1000)} {
		dest := t.TempDir()
		if o := unpackTo(bytes.NewReader(data), "d", standard, dest, "d"); o.err == nil || len(treeOf(t, dest)) > 0 {
			t.Errorf("%s: %v, %v", name, o.err, treeOf(t, dest))
		}
	}
}

// A destination that doesn't fit is an error, and nothing is written.
func TestUnpackDestination(t *testing.T) {
	top := t.TempDir()
	if err := os.WriteFile(filepath.Join(top, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, parts := range map[string][]part{
		"file":     {dir("d"), file("d/a", "A")},
		"none/new": {dir("d")}, "none/file": {file("d", "A")}, "none/": {file("d", "A")}, "file/x": {file("d", "A")}, "file/": {file("d", "A")},
	} {
		if o := unpackTo(bytes.NewReader(archived(t, parts...)), "d", standard, top+"/"+path, "d"); o.err == nil {
			t.Errorf("%s: no error", path)
		}
	}
	if diff := cmp.Diff(map[string]string{"file": "-rw------- "}, treeOf(t, top)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// Names that Linux doesn't accept are refused before anything is written, and entries about the archive as a whole are
// ignored.
func TestVerify(t *testing.T) {
	for name, tc := range map[string]struct {
		header tar.Header
		want   string
	}{
		"a long element": {tar.Header{Name: "d/" + strings.Repeat("x", maxElement+1)}, "an element of 256 bytes"},
		"a long name":    {tar.Header{Name: "d/" + strings.Repeat(strings.Repeat("x", 200)+"/", 21)}, "at most are 4095"},
		"a size below 0": {tar.Header{Name: "d/x", Typeflag: tar.TypeReg, Size: -1}, "has -1 bytes"},
		"no name":        {tar.Header{Name: "", Typeflag: tar.TypeReg}, "isn't below"},
		"a dot":          {tar.Header{Name: "d/./x", Typeflag: tar.TypeReg}, `empty or "."`},
		"two slashes":    {tar.Header{Name: "d//x", Typeflag: tar.TypeReg}, `empty or "."`},
	} {
		v := &verifier{name: "d", limits: standard}
		if _, err := v.verify(&tar.Header{Name: "d/", Typeflag: tar.TypeDir}); err != nil {
			t.Fatal(err)
		}
		if _, err := v.verify(&tc.header); err == nil || !strings.Contains(err.Error(), tc.want) || isSkipped(err) {
			t.Errorf("%s: %v; want %q", name, err, tc.want)
		}
	}
	v := &verifier{name: "d", limits: standard}
	if _, err := v.verify(&tar.Header{Name: "pax_global_header", Typeflag: tar.TypeXGlobalHeader}); !errors.Is(err, errNoEntry) {
		t.Errorf("an entry about the archive: %v", err)
	}
	e, err := v.verify(&tar.Header{Name: "./d", Typeflag: tar.TypeReg, Mode: 0o7777, Size: 5})
	if err != nil || e.dir || len(e.path) > 0 || e.mode != fs.ModePerm || e.size != 5 {
		t.Errorf("a file is %+v, %v", e, err)
	}
}

// FuzzUnpack: no archive writes anything outside of the destination, nor a link or a file of a special kind in it.
func FuzzUnpack(f *testing.F) {
	f.Add([]byte{})
	f.Add(archived(f, dir("d"), file("d/a", "A"), special("d/l", tar.TypeSymlink, "/etc"), file("d/l/x", "X")))
	f.Add(archived(f, file("d", "A")))
	f.Add(archived(f, dir("d"), file("d/../../x", "X"), special("d/h", tar.TypeLink, "../x")))
	f.Fuzz(func(t *testing.T, data []byte) {
		top := t.TempDir()
		dest := filepath.Join(top, "work", "dest")
		if err := os.MkdirAll(dest, 0o755); err != nil {
			t.Fatal(err)
		}
		_ = unpackTo(bytes.NewReader(data), "d", Limits{MaxEntries: 100, MaxBytes: 1 << 16}, dest, "d")
		for name, mode := range treeOf(t, top) {
			if name != "work" && name != "work/dest" && !strings.HasPrefix(name, "work/dest/") {
				t.Errorf("%q is written", name)
			}
			if mode[0] != '-' && mode[0] != 'd' {
				t.Errorf("%q is %s", name, mode)
			}
		}
	})
}
