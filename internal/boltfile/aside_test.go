package boltfile_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podstream/podstream/internal/boltfile"
)

// TestSetAside: no file that was set aside is overwritten, and the last five stay. Other files stay too.
func TestSetAside(t *testing.T) {
	dir := t.TempDir()
	path, now := filepath.Join(dir, "file"), time.Date(2026, 2, 3, 4, 5, 6, 7, time.UTC)
	others := []string{
		"another.damaged-20260203T040506Z", "file.backup-20260203T040506Z", "file.damaged-20260203T040506Z.mine", "file.damaged-x", "file.new",
	}
	for _, other := range others {
		if err := os.WriteFile(filepath.Join(dir, other), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	setAside := func(reason error, now time.Time) string {
		t.Helper()
		if err := os.WriteFile(path, []byte(reason.Error()), 0o600); err != nil {
			t.Fatal(err)
		}
		aside, err := boltfile.SetAside(path, reason, now)
		if err != nil {
			t.Fatal(err)
		}
		return filepath.Base(aside)
	}
	// Many in the first second: the tenth isn't older than the second.
	for n := range 11 {
		setAside(fmt.Errorf("%w: number %d", boltfile.ErrDamaged, n+1), now)
	}
	later := []string{
		setAside(fmt.Errorf("it is of another time: %w", &boltfile.FormatError{Found: 7, Known: 1}), now.Add(time.Second)),
		setAside(boltfile.ErrDamaged, now.Add(2*time.Second)),
	}
	if err := boltfile.PruneAside(path); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"file.version-7-20260203T040507Z", "file.damaged-20260203T040508Z"}, later); diff != "" {
		t.Errorf("the last ones' names (-want +got):\n%s", diff)
	}
	want := []string{
		"another.damaged-20260203T040506Z", "file.backup-20260203T040506Z", "file.damaged-20260203T040506Z-10",
		"file.damaged-20260203T040506Z-11", "file.damaged-20260203T040506Z-9", "file.damaged-20260203T040506Z.mine",
		"file.damaged-20260203T040508Z", "file.damaged-x", "file.new", "file.version-7-20260203T040507Z",
	}
	var got []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	if kept, err := os.ReadFile(path + ".damaged-20260203T040506Z-9"); err != nil || string(kept) != "the store is damaged: number 9" {
		t.Errorf("the ninth holds %q, %v", kept, err)
	}
	if _, err := boltfile.SetAside(path, boltfile.ErrDamaged, now); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("SetAside of nothing: %v; want that it doesn't exist", err)
	}
}

// TestSetAsideUnreadable: a file that can't be read isn't set aside.
func TestSetAsideUnreadable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := boltfile.SetAside(filepath.Join(file, "below"), boltfile.ErrDamaged, time.Unix(0, 0)); err == nil {
		t.Error("what is below a file was set aside")
	}
}
