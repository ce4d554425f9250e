package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
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
