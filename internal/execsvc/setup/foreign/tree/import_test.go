package tree

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/roottest"
)

// TestHostileArchives: no hostile archive is imported, and none leaves anything: neither in the volume, nor beside it.
func TestHostileArchives(t *testing.T) {
	whole := archiveOf(t, regular("a", 3000))
	for name, tc := range map[string]struct {
		archive []byte
		want    string
	}{
		"an absolute name":           {archiveOf(t, regular("/etc/evil", 1)), "absolute name"},
		"a name that leads out":      {archiveOf(t, regular("a/../../evil", 1)), `".." in its name`},
		"a file through a link out":  {archiveOf(t, link(tar.TypeSymlink, "a", ".."), regular("a/evil", 1)), "isn't a directory"},
		"a file through a root link": {archiveOf(t, link(tar.TypeSymlink, "a", "/"), regular("a/evil", 1)), "isn't a directory"},
		"a file over a link out":     {archiveOf(t, link(tar.TypeSymlink, "a", "../evil"), regular("a", 1)), "comes twice"},
		"a directory over a link":    {archiveOf(t, link(tar.TypeSymlink, "a", ".."), tar.Header{Name: "a/", Typeflag: tar.TypeDir}), "comes twice"},
		"a hard link through a link": {archiveOf(t, link(tar.TypeSymlink, "a", ".."), link(tar.TypeLink, "b", "a/evil")), "isn't a directory"},
		"a file through a link":      {archiveOf(t, link(tar.TypeSymlink, "a", "b"), regular("a/evil", 1)), "isn't a directory"},
		"a hard link out":            {archiveOf(t, link(tar.TypeLink, "a", "../../evil")), `".." in its name`},
		"a hard link to a link":      {archiveOf(t, link(tar.TypeSymlink, "a", "b"), link(tar.TypeLink, "c", "a")), "isn't a file before it"},
		"a hard link to nothing":     {archiveOf(t, link(tar.TypeLink, "a", "b")), "isn't a file before it"},
		"a device":                   {archiveOf(t, tar.Header{Name: "a", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}), "is a device"},
		"a FIFO":                     {archiveOf(t, tar.Header{Name: "a", Typeflag: tar.TypeFifo}), "is a FIFO"},
		"a name twice":               {archiveOf(t, regular("a", 1), regular("a", 1)), "comes twice"},
		"a file as its top":          {archiveOf(t, regular("./.", 1)), "isn't a directory"},
		"too many bytes":             {archiveOf(t, regular("a", 1<<19), regular("b", 1<<19), regular("c", 1)), "have more than 1048576"},
		"too many entries":           {archiveOf(t, many(101)...), "more than 100 files and directories"},
		"directories of no entry":    {archiveOf(t, regular(strings.Repeat("d/", 101)+"a", 1)), "more than 100 files and directories"},
		"a deep name":                {archiveOf(t, regular(strings.Repeat("d/", maxDepth+1)+"a", 1)), "levels deep"},
		"a part of an archive":       {whole[:1500], "isn't complete"},
		"an archive without its end": {whole[:512+1000], "isn't complete"},
		"no archive":                 {bytes.Repeat([]byte("x"), 4096), "isn't a tar archive"},
		"nothing":                    {nil, "the archive is empty"},
		"zeros":                      {make([]byte, 1024), "the archive is empty"},
		"a cut between its entries":  {archiveOf(t, regular("a", 300), regular("b", 300))[:1024], "isn't complete"},
		"a cut after a long name":    {archiveOf(t, regular("a", 0), regular(strings.Repeat("x", 200), 0))[:3*512], "isn't complete"},
		"a cut after content of 0":   {cutAfterZeros(t), "isn't complete"},
		"half of its end":            {archiveOf(t, regular("a", 0))[:1024], "isn't complete"},
		"two archives":               {append(archiveOf(t, regular("a", 300)), whole...), "followed by other data"},
		"many zeros":                 {append(archiveOf(t, regular("a", 300)), make([]byte, maxPadding+1)...), "bytes of zeros"},
		"only a global header":       {globalHeader(t), "the archive is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			root, dir := newRoot(t)
			_, err := importing(root).Do(t.Context(), bytes.NewReader(tc.archive))
			if _, refused := errors.AsType[*RefusedError](err); !refused || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v; want %q", err, tc.want)
			}
			if names, err := os.ReadDir(dir); err != nil || len(names) != 1 || names[0].Name() != "old" {
				t.Errorf("the volume has %v, %v; want what it had", names, err)
			}
			if left := leftIn(t, root); left != nil {
				t.Errorf("%v is left", left)
			}
			for _, path := range []string{filepath.Join(root, "evil"), filepath.Join(root, "default", "evil"), filepath.Join(filepath.Dir(root), "evil")} {
				if _, err := os.Lstat(path); err == nil {
					t.Errorf("%s was written", path)
				}
			}
		})
	}
}

// cutAfterZeros returns an archive of two files that is cut after the first one, whose content is zeros.
func cutAfterZeros(t *testing.T) []byte {
	whole := archiveOf(t, regular("a", 1024), regular("b", 1))
	copy(whole[512:], make([]byte, 1024))
	return whole[:512+1024]
}

// globalHeader returns an archive without files.
func globalHeader(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	must(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "x"}}), w.Close())
	return b.Bytes()
}

func many(n int) (all []tar.Header) {
	for i := range n {
		all = append(all, regular(fmt.Sprint(i), 0))
	}
	return all
}

// TestFrames: an archive whose sender was killed isn't imported, though it has its own end.
func TestFrames(t *testing.T) {
	root, dir := newRoot(t)
	var sent bytes.Buffer
	_, err := Frames{&sent}.Write(archiveOf(t, regular("new", 3)))
	must(t, err)
	if _, err := importing(root).Do(t.Context(), &Unframe{From: bytes.NewReader(sent.Bytes())}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("without the last frame: %v; want %v", err, io.ErrUnexpectedEOF)
	}
	if _, err := os.Lstat(filepath.Join(dir, "old")); err != nil {
		t.Errorf("without the last frame: %v", err)
	}
	must(t, Frames{&sent}.End())
	if _, err := importing(root).Do(t.Context(), &Unframe{From: &sent}); err != nil {
		t.Error(err)
	}
}

// TestImportOverContent: content is replaced only on request, and then none of it is left.
func TestImportOverContent(t *testing.T) {
	root, dir := newRoot(t)
	archive := archiveOf(t, regular("new", 3))
	j := importing(root)
	j.Replace = false
	if _, err := j.Do(t.Context(), bytes.NewReader(archive)); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("%v; want %v", err, ErrNotEmpty)
	}
	j.Replace = true
	_, err := j.Do(t.Context(), bytes.NewReader(archive))
	must(t, err)
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 || names[0].Name() != "new" {
		t.Errorf("the volume has %v, %v", names, err)
	}
	if _, err := os.Lstat(filepath.Join(root, incomplete, "now-1", "old")); err != nil {
		t.Errorf("the import has removed what it replaced, which may take longer than its caller waits: %v", err)
	}
	must(t, Sweep{Root: root, Only: "now-1"}.Do())
	if left := leftIn(t, root); left != nil {
		t.Errorf("%v is left", left)
	}
}

// TestUnsyncedImport: an import that the disk doesn't confirm is undone. If that isn't confirmed either, neither content is removed.
func TestUnsyncedImport(t *testing.T) {
	errDisk := errors.New("the disk is bad")
	for name, tc := range map[string]struct {
		fails  int
		exists bool
		// after is what the volume has, left is set if the archive's content stays beside it.
		after string
		left  bool
	}{
		"once":                     {1, true, "old", false},
		"always":                   {9, true, "old", true},
		"once, without a volume":   {1, false, "", false},
		"always, without a volume": {9, false, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			root, dir := newRoot(t)
			if !tc.exists {
				must(t, os.RemoveAll(dir))
			}
			j := importing(root)
			j.sync = func(...*os.File) error {
				if tc.fails--; tc.fails >= 0 {
					return errDisk
				}
				return nil
			}
			_, err := j.Do(t.Context(), bytes.NewReader(archiveOf(t, regular("new", 3))))
			if !errors.Is(err, errDisk) || errors.Is(err, ErrUnsynced) != tc.left {
				t.Errorf("the error is %v", err)
			}
			names, err := os.ReadDir(dir)
			if tc.after == "" && !errors.Is(err, os.ErrNotExist) || tc.after != "" && (err != nil || len(names) != 1 || names[0].Name() != tc.after) {
				t.Errorf("the volume has %v, %v; want %q", names, err, tc.after)
			}
			if left := leftIn(t, root); (len(left) != 0) != tc.left {
				t.Errorf("%v is left", left)
			}
			if _, err := os.Lstat(filepath.Join(root, incomplete, "now-1"+unsynced, "new")); (err == nil) != tc.left {
				t.Errorf("the archive's content: %v", err)
			}
			must(t, Sweep{Root: root}.Do(), Sweep{Root: root, Only: "now-1"}.Do())
			if left := leftIn(t, root); (len(left) != 0) != tc.left {
				t.Errorf("after Sweep: %v", left)
			}
		})
	}
}

// TestLongDirNames: the names that an import keeps in memory are bounded, not only the number of entries.
func TestLongDirNames(t *testing.T) {
	root, _ := newRoot(t)
	j := importing(root)
	j.maxDirNames = 1000
	long := strings.Repeat("d", 200) + "/"
	for name, entry := range map[string]tar.Header{
		"named":   {Name: strings.Repeat(long, 6), Typeflag: tar.TypeDir},
		"unnamed": regular(strings.Repeat(long, 6)+"file", 1),
	} {
		_, err := j.Do(t.Context(), bytes.NewReader(archiveOf(t, entry)))
		if _, refused := errors.AsType[*RefusedError](err); !refused || !strings.Contains(err.Error(), "more than 1000 bytes") || leftIn(t, root) != nil {
			t.Errorf("%s: %v, left %v", name, err, leftIn(t, root))
		}
	}
	again := tar.Header{Name: strings.Repeat(long, 2), Typeflag: tar.TypeDir}
	if _, err := j.Do(t.Context(), bytes.NewReader(archiveOf(t, again, again, again, again))); err != nil {
		t.Errorf("one directory counts more than once: %v", err)
	}
}

// TestImportLeavesRoom: an import leaves a part of the file system's room and inodes available, also one of empty files.
func TestImportLeavesRoom(t *testing.T) {
	const inodes = 400
	for name, tc := range map[string]struct {
		entries []tar.Header
		want    string
	}{
		"files":                   {[]tar.Header{regular("a", 1<<20)}, ""},
		"files that fill it":      {[]tar.Header{regular("a", 8<<20), regular("b", 8<<20)}, "of its room"},
		"empty files":             {many(inodes / 2), ""},
		"empty files and all":     {many(inodes - 10), "of its inodes"},
		"directories of no entry": {[]tar.Header{regular(strings.Repeat("d/", inodes-10)+"a", 0)}, "of its inodes"},
	} {
		t.Run(name, func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "claims")
			must(t, os.MkdirAll(root, 0o755))
			roottest.Able(t, unix.Mount("tmpfs", root, "tmpfs", 0, fmt.Sprintf("size=16m,nr_inodes=%d", inodes)))
			t.Cleanup(func() { _ = unix.Unmount(root, unix.MNT_DETACH) })
			j := importing(root)
			j.MaxEntries, j.MaxBytes = 2*inodes, 64<<20
			_, err := j.Do(t.Context(), bytes.NewReader(archiveOf(t, tc.entries...)))
			if tc.want == "" && err != nil || tc.want != "" && (!errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%v; want %q", err, tc.want)
			}
		})
	}
}

// TestIdentity: files with one number, one of which came when the other was gone, or in another subvolume, are two files.
func TestIdentity(t *testing.T) {
	one := unix.Statx_t{Ino: 7, Dev_minor: 1, Btime: unix.StatxTimestamp{Sec: 1}}
	later, elsewhere := one, one
	later.Btime.Nsec = 1
	elsewhere.Dev_minor = 2
	if same := one; identityOf(&one) != identityOf(&same) || identityOf(&one) == identityOf(&later) || identityOf(&one) == identityOf(&elsewhere) {
		t.Errorf("%+v, %+v, %+v", identityOf(&one), identityOf(&later), identityOf(&elsewhere))
	}
}

// TestImportOfMissing: an import doesn't create a directory that existed before: the disk that has it may not be mounted.
func TestImportOfMissing(t *testing.T) {
	root, dir := newRoot(t)
	archive := archiveOf(t, regular("new", 3))
	for _, gone := range []string{dir, root} {
		must(t, os.RemoveAll(gone))
		j := importing(root)
		j.Exists = true
		if _, err := j.Do(t.Context(), bytes.NewReader(archive)); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "existed before") {
			t.Errorf("without %s: %v; want %v", gone, err, ErrMissing)
		}
		if _, err := os.Lstat(gone); err == nil {
			t.Errorf("%s was created", gone)
		}
	}
	if _, err := importing(root).Do(t.Context(), bytes.NewReader(archive)); err != nil {
		t.Error(err)
	}
}
