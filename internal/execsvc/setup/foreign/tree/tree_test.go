package tree

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/roottest"
)

const claim = "default/data"

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// newRoot returns a --volume-dir with the claim's directory, which has a file "old".
func newRoot(t *testing.T) (root, dir string) {
	t.Helper()
	root = filepath.Join(t.TempDir(), "the claims\u00a0")
	dir = filepath.Join(root, claim)
	must(t, os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "old"), []byte("old"), 0o600))
	return root, dir
}

// leftIn returns what is in the directory of what is incomplete.
func leftIn(t *testing.T, root string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(root, incomplete))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func survey(root string) Survey {
	return Survey{Root: root, Max: MaxPage, MaxFiles: 1000, Budget: time.Minute}
}

func importing(root string) Import {
	return Import{Root: root, Claim: claim, As: "now-1", Replace: true, MaxBytes: 1 << 20, MaxEntries: 100}
}

// archiveOf returns an archive of the headers, each with a content of its size.
func archiveOf(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		h.Uid, h.Gid = os.Getuid(), os.Getgid()
		must(t, w.WriteHeader(&h))
		_, err := io.WriteString(w, strings.Repeat("x", int(h.Size)))
		must(t, err)
	}
	must(t, w.Close())
	return b.Bytes()
}

func regular(name string, size int64) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeReg, Size: size}
}

func link(kind byte, name, to string) tar.Header {
	return tar.Header{Name: name, Typeflag: kind, Linkname: to}
}

// TestRoundTrip: what Export writes, Import makes again: files, links, names of one file, modes, times and holes, but no setuid.
func TestRoundTrip(t *testing.T) {
	root, dir := newRoot(t)
	at := time.Unix(1_700_000_000, 123_000_000)
	in := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.MkdirAll(in("d/e"), 0o755), os.WriteFile(in("d/e/f"), []byte("deep"), 0o640), os.Symlink("../old", in("d/link")),
		os.Link(in("old"), in("other")), os.WriteFile(in("tool"), nil, 0o755), os.Chmod(in("tool"), 0o755|os.ModeSetuid),
		os.WriteFile(in("holes"), []byte("begin"), 0o600), os.Truncate(in("holes"), 512<<10), unix.Mkfifo(in("fifo"), 0o600),
		os.Symlink("/etc/passwd", in("out")),
		os.Symlink("to\xff", in("bytes\xe9")), os.WriteFile(in("caf\xe9 \n\xff"), []byte("latin"), 0o600), os.Chtimes(in("d/e/f"), at, at), os.Chtimes(in("d/e"), at, at), os.Chmod(in("d"), 0o500))
	var archive bytes.Buffer
	moved, err := Export{Root: root, Claim: claim}.Do(&archive)
	must(t, err)
	if moved.LeftOut != 1 || moved.Outside != 1 || len(moved.Notes) != 2 {
		t.Errorf("%+v; want the FIFO left out, and the link noted", moved)
	}
	j := importing(root)
	j.Claim = "other/copy"
	if _, err := j.Do(t.Context(), &archive); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(root, "other", "copy")
	for name, want := range map[string]string{"old": "old", "other": "old", "d/e/f": "deep", "d/link": "old", "caf\xe9 \n\xff": "latin"} {
		if data, err := os.ReadFile(filepath.Join(copied, name)); err != nil || string(data) != want {
			t.Errorf("%s is %q, %v; want %q", name, data, err, want)
		}
	}
	for name, want := range map[string]string{"out": "/etc/passwd", "d/link": "../old", "bytes\xe9": "to\xff"} {
		if to, err := os.Readlink(filepath.Join(copied, name)); err != nil || to != want {
			t.Errorf("link %q is %q, %v; want %q", name, to, err, want)
		}
	}
	for name, want := range map[string]os.FileMode{"d": 0o500, "d/e/f": 0o640, "tool": 0o755, "old": 0o600, ".": 0o755} {
		if info, err := os.Stat(filepath.Join(copied, name)); err != nil || info.Mode()&^os.ModeDir != want {
			t.Errorf("%s: %v, %v; want %v", name, info.Mode(), err, want)
		}
	}
	for _, name := range []string{"d/e", "d/e/f"} {
		if info, err := os.Stat(filepath.Join(copied, name)); err != nil || !info.ModTime().Equal(at) {
			t.Errorf("%s: %v, %v; want %v", name, info.ModTime(), err, at)
		}
	}
	var st unix.Stat_t
	must(t, unix.Stat(filepath.Join(copied, "holes"), &st))
	if st.Size != 512<<10 || st.Blocks*512 > 256<<10 {
		t.Errorf("the file with holes has %d bytes in %d blocks", st.Size, st.Blocks)
	}
	var first, second unix.Stat_t
	must(t, unix.Stat(filepath.Join(copied, "old"), &first), unix.Stat(filepath.Join(copied, "other"), &second))
	if first.Ino != second.Ino {
		t.Error("two names of a file are two files")
	}
	must(t, os.Chmod(in("d"), 0o755), os.Chmod(filepath.Join(copied, "d"), 0o755))
}

// TestRoundTripOfLongPaths: an import makes each path that an export can read, also those that are longer than PATH_MAX.
func TestRoundTripOfLongPaths(t *testing.T) {
	root, dir := newRoot(t)
	const levels = 40
	element := strings.Repeat("d", maxElement)
	at, err := openRoot(dir)
	must(t, err)
	for range levels {
		next, err := makeDir(at, element, 0o755)
		must(t, err, at.Close())
		at = next
	}
	fd, err := unix.Openat(int(at.Fd()), "file", unix.O_CREAT|unix.O_WRONLY, 0o600)
	must(t, err, unix.Close(fd), at.Close())
	var archive bytes.Buffer
	moved, err := Export{Root: root, Claim: claim}.Do(&archive)
	must(t, err)
	j := importing(root)
	j.MaxBytes = 64 << 20
	again, err := j.Do(t.Context(), &archive)
	must(t, err)
	if again.Entries != moved.Entries || again.Entries != levels+3 {
		t.Errorf("%d entries are exported, %d imported", moved.Entries, again.Entries)
	}
	must(t, Remove{Root: root, Claim: claim, As: "now-2"}.Do(), Sweep{Root: root}.Do())
}

// TestExportIsBounded: a file with holes counts with its size.
func TestExportIsBounded(t *testing.T) {
	root, dir := newRoot(t)
	must(t, os.Truncate(filepath.Join(dir, "old"), 1<<40))
	if _, err := (Export{Root: root, Claim: claim, MaxBytes: 1 << 20}).Do(io.Discard); err == nil || !strings.Contains(err.Error(), "more than 1048576") {
		t.Errorf("%v; want an error about the bound", err)
	}
}

// TestRemove: a directory is removed with all below it, however deep, and links' targets stay. If its process is killed after
// the rename, or an import's is, the next Sweep removes the rest, and nothing of its own start.
func TestRemove(t *testing.T) {
	root, dir := newRoot(t)
	outside := filepath.Join(t.TempDir(), "precious")
	must(t, os.WriteFile(outside, nil, 0o600), os.Symlink(filepath.Dir(outside), filepath.Join(dir, "link")))
	at, err := openRoot(dir)
	must(t, err)
	for range 2*maxDepth + 10 {
		next, err := makeDir(at, "d", 0o755)
		must(t, err, at.Close())
		at = next
	}
	must(t, at.Close())
	must(t, Remove{Root: root, Claim: claim, As: "now-1"}.Do(), Sweep{Root: root, Only: "now-1"}.Do())
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) || leftIn(t, root) != nil {
		t.Errorf("the directory: %v; %v is left", err, leftIn(t, root))
	}
	if _, err := os.Lstat(outside); err != nil {
		t.Errorf("the target of a link: %v", err)
	}
	if err := (Remove{Root: root, Claim: claim, As: "now-2"}).Do(); !errors.Is(err, ErrMissing) {
		t.Errorf("a second time: %v; want %v", err, ErrMissing)
	}

	must(t, os.MkdirAll(filepath.Join(dir, "d"), 0o755), os.MkdirAll(filepath.Join(root, incomplete, "new-import", "d"), 0o700))
	must(t, Remove{Root: root, Claim: claim, As: "killed-1"}.Do())
	if s, err := survey(root).Do(t.Context()); err != nil || len(s.Dirs) != 0 || len(leftIn(t, root)) != 2 {
		t.Errorf("after the kill: %+v, %v, left %v; want no volume", s, err, leftIn(t, root))
	}
	unsyncable := Sweep{Root: root, sync: func(*os.File) error { return os.ErrInvalid }}
	if err := unsyncable.Do(); !errors.Is(err, os.ErrInvalid) || len(leftIn(t, root)) != 2 {
		t.Errorf("on a disk that fails: %v, left %v; want nothing removed", err, leftIn(t, root))
	}
	must(t, Sweep{Root: root, Keep: "new-"}.Do())
	if left := leftIn(t, root); len(left) != 1 || left[0] != "new-import" {
		t.Errorf("after Sweep: %v; want that of this start only", left)
	}
}

// TestMounts: what is mounted in a directory is never removed, measured or exported, a bind mount of the same file system either.
func TestMounts(t *testing.T) {
	root, dir := newRoot(t)
	precious := filepath.Join(root, "precious")
	must(t, os.MkdirAll(precious, 0o755), os.WriteFile(filepath.Join(precious, "file"), nil, 0o600), os.MkdirAll(filepath.Join(dir, "d", "m"), 0o755))
	roottest.Able(t, unix.Mount(precious, filepath.Join(dir, "d", "m"), "", unix.MS_BIND, ""))
	t.Cleanup(func() {
		_ = unix.Unmount(filepath.Join(dir, "d", "m"), unix.MNT_DETACH)
		for _, name := range leftIn(t, root) {
			_ = unix.Unmount(filepath.Join(root, incomplete, name, "d", "m"), unix.MNT_DETACH)
		}
	})
	s := survey(root)
	s.Only = claim
	if got, err := s.Do(t.Context()); err != nil || len(got.Dirs) != 1 || !strings.Contains(got.Dirs[0].Problem, ErrMounted.Error()) {
		t.Errorf("Survey: %+v, %v", got, err)
	}
	if _, err := (Export{Root: root, Claim: claim}).Do(io.Discard); !errors.Is(err, ErrMounted) {
		t.Errorf("Export: %v; want %v", err, ErrMounted)
	}
	s.Mounts = true
	if got, err := s.Do(t.Context()); err != nil || len(got.Dirs) != 1 || !strings.Contains(got.Dirs[0].Problem, ErrMounted.Error()) {
		t.Errorf("Survey of the mounts: %+v, %v", got, err)
	}
	if err := (Remove{Root: root, Claim: claim, As: "now-1"}).Do(); !errors.Is(err, ErrMounted) {
		t.Errorf("Remove: %v; want %v", err, ErrMounted)
	}
	if _, err := importing(root).Do(t.Context(), bytes.NewReader(archiveOf(t, regular("new", 3)))); !errors.Is(err, ErrMounted) {
		t.Errorf("Import: %v; want %v", err, ErrMounted)
	}
	if _, err := os.Lstat(filepath.Join(dir, "old")); err != nil {
		t.Errorf("the volume: %v; want it unchanged", err)
	}
	must(t, os.MkdirAll(filepath.Join(root, incomplete), 0o700), os.Rename(dir, filepath.Join(root, incomplete, "moved")))
	if err := (Sweep{Root: root}).Do(); !errors.Is(err, ErrMounted) {
		t.Errorf("Sweep: %v; want %v", err, ErrMounted)
	}
	if _, err := os.Lstat(filepath.Join(precious, "file")); err != nil {
		t.Errorf("the file behind the mount: %v", err)
	}
}

// TestSurvey: directories of claims are listed in pages, and measured within bounds. Links and files aren't listed as volumes.
func TestSurvey(t *testing.T) {
	root, dir := newRoot(t)
	must(t, os.MkdirAll(filepath.Join(root, "other", "a"), 0o755), os.Symlink(dir, filepath.Join(root, "other", "b")),
		os.Symlink(filepath.Dir(dir), filepath.Join(root, "linked")), os.WriteFile(filepath.Join(dir, "big"), make([]byte, 1<<20), 0o600))
	s := survey(root)
	s.Max = 1
	first, err := s.Do(t.Context())
	must(t, err)
	if len(first.Dirs) != 1 || !first.More || first.Dirs[0].Claim != claim || first.Dirs[0].Files != 2 || first.Dirs[0].Bytes < 1<<20 || first.Dirs[0].Problem != "" {
		t.Errorf("the first page: %+v", first)
	}
	s.After, s.Max = claim, MaxPage
	second, err := s.Do(t.Context())
	must(t, err)
	if len(second.Dirs) == 0 || second.Dirs[0].Claim != "other/a" || second.More {
		t.Errorf("the second page: %+v", second)
	}
	for _, d := range second.Dirs[1:] {
		if d.Claim != "other/b" || d.Problem == "" || d.Files != 0 {
			t.Errorf("a link: %+v", d)
		}
	}
	s = survey(root)
	s.Only, s.MaxFiles = claim, 1
	s.Mounts = true
	if got, err := s.Do(t.Context()); err != nil || len(got.Dirs) != 1 || got.Dirs[0].Problem != "" {
		t.Errorf("of the mounts, which no number of files hides: %+v, %v", got, err)
	}
	s.Mounts = false
	if got, err := s.Do(t.Context()); err != nil || !strings.Contains(got.Dirs[0].Problem, "more than 1 files") {
		t.Errorf("with a bound: %+v, %v", got, err)
	}
	s.Only = "default/missing"
	if _, err := s.Do(t.Context()); !errors.Is(err, ErrMissing) {
		t.Errorf("a missing one: %v", err)
	}
	if got, err := survey(filepath.Join(root, "never")).Do(t.Context()); err != nil || len(got.Dirs) != 0 {
		t.Errorf("before the first claim: %+v, %v", got, err)
	}
}
