package atomicdir

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/execsvc/setup/volume/payload"
)

// text returns files of mode 0644 from paths and texts.
func text(pairs ...string) map[string]payload.File {
	files := map[string]payload.File{}
	for i := 0; i < len(pairs); i += 2 {
		files[pairs[i]] = payload.File{Data: []byte(pairs[i+1]), Mode: 0o644}
	}
	return files
}

// texts returns the data of files, by path.
func texts(files map[string]payload.File) map[string]string {
	data := map[string]string{}
	for path, f := range files {
		data[path] = string(f.Data)
	}
	return data
}

// mustWrite writes files and checks whether they changed the content.
func mustWrite(t rapid.TB, dir string, files map[string]payload.File, fsGroup *int64, changed bool) {
	t.Helper()
	got, err := Write(dir, files, fsGroup)
	if err != nil {
		t.Fatal(err)
	}
	if got != changed {
		t.Fatalf("Write reports that the content has changed: %v, want %v", got, changed)
	}
}

// below returns the data of all files below a directory, without following links.
func below(dir string) (map[string]string, error) {
	data := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		data[strings.TrimPrefix(path, dir+"/")] = string(text)
		return err
	})
	return data, err
}

// checkContent checks that ..data and the links lead to those files and no others, and that no other entry of the
// package is left.
func checkContent(t rapid.TB, dir string, files map[string]payload.File) {
	t.Helper()
	content, err := os.Readlink(filepath.Join(dir, dataLink))
	if err != nil {
		t.Fatal(err)
	}
	got, err := below(filepath.Join(dir, content))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(texts(files), got); diff != "" {
		t.Errorf("content (-want +got):\n%s", diff)
	}
	want := map[string]string{dataLink: content, content: "a directory"}
	for path := range files {
		top, _, _ := strings.Cut(path, "/")
		want[top] = "..data/" + top
	}
	if diff := cmp.Diff(want, listing(t, dir)); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

// listing returns the link target or the type of each entry of a directory.
func listing(t rapid.TB, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, e := range entries {
		switch {
		case e.IsDir():
			names[e.Name()] = "a directory"
		case e.Type() == fs.ModeSymlink:
			if names[e.Name()], err = os.Readlink(filepath.Join(dir, e.Name())); err != nil {
				t.Fatal(err)
			}
		default:
			names[e.Name()] = "a file"
		}
	}
	return names
}

// attributes returns the modes and owners of everything below a directory, by path below the content.
func attributes(t *testing.T, dir string) map[string]string {
	t.Helper()
	content, err := filepath.EvalSymlinks(filepath.Join(dir, dataLink))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	err = filepath.WalkDir(content, func(path string, _ fs.DirEntry, err error) error {
		var stat unix.Stat_t
		if err == nil {
			err = unix.Lstat(path, &stat)
		}
		found["."+strings.TrimPrefix(path, content)] = fmt.Sprintf("%04o %d:%d", stat.Mode&0o7777, stat.Uid, stat.Gid)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// fingerprint changes with every write in or below a directory.
func fingerprint(t *testing.T, dir string) string {
	t.Helper()
	marks := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		var stat unix.Stat_t
		if err == nil {
			err = unix.Lstat(path, &stat)
		}
		marks[path] = fmt.Sprint(path, stat.Ino, stat.Ctim.Nano())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(slices.Sorted(maps.Values(marks)), "\n")
}
