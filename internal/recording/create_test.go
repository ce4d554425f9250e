package recording_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/recording"
)

// TestCreateForOwnerOnly: a process that may read the old file, or has it open, can't read the recording.
func TestCreateForOwnerOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := recording.Create(recording.FileConfig{Path: path, Overwrite: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(path)
	if err != nil || after.Mode() != 0o600 || os.SameFile(before, after) {
		t.Errorf("the file is %v, %v, the same as before: %v; want a new file with mode 0600", after, err, os.SameFile(before, after))
	}
	if s, err := recording.Summarize(path); err != nil || s.Messages != 0 {
		t.Errorf("the recording holds %+v, %v; want a header only", s, err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v, %v; want the recording only", entries, err)
	}
}

// TestCreateRefuses: only a regular file is overwritten, and no link is followed.
func TestCreateRefuses(t *testing.T) {
	dir := t.TempDir()
	file, link, fifo := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "fifo")
	err := errors.Join(os.WriteFile(file, []byte("precious"), 0o600), os.Symlink("file", link), unix.Mkfifo(fifo, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, fifo, dir} {
		cfg := recording.FileConfig{Path: path, Overwrite: true}
		if w, err := recording.Create(cfg); err == nil || !strings.Contains(err.Error(), path+" isn't a regular file") {
			t.Errorf("Create(%+v): %v, %v; want it refused", cfg, w, err)
		}
		if err := cfg.Check(); err == nil {
			t.Errorf("%+v passes the check; want it refused", cfg)
		}
	}
	for _, path := range []string{file, link, fifo, dir} {
		if w, err := recording.Create(recording.FileConfig{Path: path}); !errors.Is(err, fs.ErrExist) {
			t.Errorf("Create(%s): %v, %v; want fs.ErrExist", path, w, err)
		}
	}
	if content, err := os.ReadFile(file); string(content) != "precious" {
		t.Errorf("the file holds %q, %v; want it unchanged", content, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v; want it unchanged", info, err)
	}
}
