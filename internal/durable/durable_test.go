package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path, draft := filepath.Join(dir, "file"), filepath.Join(dir, "draft")
	is := func(want string) {
		t.Helper()
		if data, err := os.ReadFile(path); err != nil || string(data) != want {
			t.Errorf("the file has %q, %v; want %q", data, err, want)
		}
		if _, err := os.Lstat(draft); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the draft is left: %v", err)
		}
	}
	for _, content := range []string{"first", "second, which is longer", "3"} {
		if err := Write(path, draft, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		is(content)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file's mode is %v, %v", info.Mode(), err)
	}

	// What a killed process has left in the draft doesn't count.
	if err := os.WriteFile(draft, []byte("half of something that is longer than the new content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, draft, []byte("4"), 0o600); err != nil {
		t.Fatal(err)
	}
	is("4")

	// A link isn't followed.
	target := filepath.Join(dir, "target")
	if err := os.Symlink(target, draft); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, draft, []byte("5"), 0o600); err == nil {
		t.Error("the draft was a link, and there was no error")
	}
	is("4")
	if _, err := os.Lstat(target); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the link was followed: %v", err)
	}

	// The file can't be replaced.
	other := filepath.Join(dir, "other")
	if err := os.MkdirAll(filepath.Join(other, "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(other, draft, []byte("6"), 0o600); err == nil {
		t.Error("a directory was replaced")
	}
	is("4")
}

func TestSyncDir(t *testing.T) {
	if err := SyncDir(t.TempDir()); err != nil {
		t.Error(err)
	}
	if err := SyncDir(filepath.Join(t.TempDir(), "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing directory: %v", err)
	}
}
