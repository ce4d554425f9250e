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
		"an absolute link":           {archiveOf(t, link(tar.TypeSymlink, "a", "/etc")), "leads out of the volume"},
		"a link that leads out":      {archiveOf(t, link(tar.TypeSymlink, "d/a", "../../evil")), "leads out of the volume"},
		"a link out and in again":    {archiveOf(t, link(tar.TypeSymlink, "a", "../data/a")), "leads out of the volume"},
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
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 || names[0].Name() != "new" || leftIn(t, root) != nil {
		t.Errorf("the volume has %v, %v, and %v is left", names, err, leftIn(t, root))
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
			if _, err := os.Lstat(filepath.Join(root, incomplete, "now-1", "new")); (err == nil) != tc.left {
				t.Errorf("the archive's content: %v", err)
			}
		})
	}
}
