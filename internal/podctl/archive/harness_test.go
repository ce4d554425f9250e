package archive

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// standard are limits that no honest archive of these tests reaches.
var standard = Limits{MaxEntries: 1000, MaxBytes: 1 << 20}

// part is an entry of a test's archive.
type part struct {
	tar.Header
	content string
}

func file(name, content string) part {
	return part{tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content))}, content}
}

func dir(name string) part {
	return part{tar.Header{Name: name + "/", Typeflag: tar.TypeDir, Mode: 0o755}, ""}
}

func special(name string, flag byte, to string) part {
	return part{tar.Header{Name: name, Typeflag: flag, Linkname: to, Mode: 0o644}, ""}
}

func withMode(p part, mode int64) part {
	p.Mode = mode
	return p
}

// archived returns an archive of the parts. The writer of archive/tar refuses names with a NUL, and no others.
func archived(t testing.TB, parts ...part) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, p := range parts {
		p.Format = tar.FormatGNU
		if err := w.WriteHeader(&p.Header); err != nil {
			t.Fatalf("%q: %v", p.Name, err)
		}
		if _, err := io.WriteString(w, p.content); err != nil {
			t.Fatalf("%q: %v", p.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// place are the directories of a test: dest, to which it unpacks, is two levels below top. outside is beside dest.
type place struct{ top, dest, outside string }

func newPlace(t *testing.T) place {
	t.Helper()
	top := t.TempDir()
	p := place{top: top, dest: filepath.Join(top, "work", "dest"), outside: filepath.Join(top, "work", "outside")}
	for _, d := range []string{p.dest, p.outside} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(p.outside, "secret"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// outcome is what an unpacking has reported.
type outcome struct {
	err     error
	skipped []string
}

// says reports whether it reported the text.
func (o outcome) says(text string) bool {
	return o.err != nil && strings.Contains(o.err.Error(), text) ||
		slices.ContainsFunc(o.skipped, func(s string) bool { return strings.Contains(s, text) })
}

// unpackWith unpacks with a verifier and a writer.
func unpackWith(data io.Reader, v *verifier, w writer) (o outcome) {
	s := Source{Reader: data, Name: v.name, Limits: v.limits, Skipped: func(name, reason string) {
		o.skipped = append(o.skipped, fmt.Sprintf("%q %s", name, reason))
	}}
	o.err = unpack(s, v, w)
	return o
}

// unpackTo unpacks the product's way.
func unpackTo(data io.Reader, name string, limits Limits, where, base string) (o outcome) {
	o.err = Unpack(Source{Reader: data, Name: name, Limits: limits, Skipped: func(name, reason string) {
		o.skipped = append(o.skipped, fmt.Sprintf("%q %s", name, reason))
	}}, where, base)
	return o
}

// naive is a writer like that of a tar program without safety: it makes what the archive has, and follows links.
type naive struct {
	t     *testing.T
	where string
}

func (n *naive) target(e entry) string {
	if filepath.IsAbs(e.header.Name) {
		return e.header.Name
	}
	return filepath.Join(append([]string{n.where}, e.path...)...)
}

// dir implements writer.
func (n *naive) dir(e entry) error {
	if err := os.MkdirAll(n.target(e), 0o755); err != nil {
		return err
	}
	return os.Chmod(n.target(e), e.mode)
}

// file implements writer.
func (n *naive) file(e entry, r io.Reader) error {
	if len(e.path) == 0 { // As `tar -x` in a directory: the archive has one file, or so it seems.
		e.path = []string{e.header.Name}
	}
	if err := os.MkdirAll(filepath.Dir(n.target(e)), 0o755); err != nil {
		return err
	}
	f, err := os.Create(n.target(e))
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.Copy(f, r); err != nil {
		return err
	}
	return f.Chmod(e.mode)
}

// other implements writer.
func (n *naive) other(e entry) error {
	h := e.header
	switch h.Typeflag {
	case tar.TypeSymlink:
		return os.Symlink(h.Linkname, n.target(e))
	case tar.TypeLink:
		return os.Link(h.Linkname, n.target(e))
	case tar.TypeFifo:
		return unix.Mkfifo(n.target(e), 0o644)
	case tar.TypeChar, tar.TypeBlock:
		kind := uint32(unix.S_IFCHR)
		if h.Typeflag == tar.TypeBlock {
			kind = unix.S_IFBLK
		}
		return unix.Mknod(n.target(e), kind|0o666, int(unix.Mkdev(uint32(h.Devmajor), uint32(h.Devminor))))
	}
	return os.WriteFile(n.target(e), nil, 0o644)
}

// exists reports whether there is something at the path, which may be a link.
func exists(path ...string) bool {
	_, err := os.Lstat(filepath.Join(path...))
	return err == nil
}

// is reports whether a file of that kind is at the path.
func is(kind fs.FileMode, path ...string) bool {
	info, err := os.Lstat(filepath.Join(path...))
	return err == nil && info.Mode()&kind == kind
}

// tree is what is below a directory: names with the modes of directories and files, and files' contents.
func treeOf(t *testing.T, top string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == top {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(top, path)
		found[name] = info.Mode().String()
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(path)
			found[name] += " " + string(content)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
