package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The id must outlive everything but the file that it is in.
func TestIDStays(t *testing.T) {
	dir := t.TempDir()
	first, err := ID(dir, "some-id")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := ID(dir, "some-id"); again != first || err != nil {
		t.Errorf("the second start has id %q, %v; want %q", again, err, first)
	}
	if known, err := KnownID(dir, "some-id"); known != first || err != nil {
		t.Errorf("the known id is %q, %v; want %q", known, err, first)
	}
	if known, err := KnownID(dir, "other-id"); known != "" || err != nil {
		t.Errorf("before its creation the id is %q, %v; want none", known, err)
	}
	for name, in := range map[string]string{"other-id": dir, "some-id": t.TempDir()} {
		if other, err := ID(in, name); other == first || err != nil {
			t.Errorf("%s in %s is %q, %v; want another than %q", name, in, other, err, first)
		}
	}
	for _, damage := range []string{"", "junk\n"} {
		if err := os.WriteFile(filepath.Join(dir, "some-id"), []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		if id, err := ID(dir, "some-id"); !errors.Is(err, ErrDamagedID) {
			t.Errorf("a file that holds %q gives id %q, %v; want ErrDamagedID", damage, id, err)
		}
	}
	if id, err := ID(filepath.Join(dir, "missing"), "some-id"); err == nil {
		t.Errorf("without a directory the id is %q; want an error", id)
	}
}

// TestIDIsBounded: a named pipe in the file's place keeps no daemon waiting, and a large file isn't read.
func TestIDIsBounded(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "large"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"pipe": "it is a named pipe", "large": "at most 4096 are read"} {
		if id, err := ID(dir, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v; want %q", name, id, err, want)
		}
	}
}
