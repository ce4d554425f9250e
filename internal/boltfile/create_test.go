package boltfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/podstream/podstream/internal/boltfile"
)

// TestCreate: a new file replaces the old one when it is complete, and not before.
func TestCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	// What another process left of its draft is of no account.
	if err := os.WriteFile(path+".new", []byte("half of it"), 0o644); err != nil {
		t.Fatal(err)
	}
	first, err := boltfile.Create(path, boltfile.Options{}, with("first"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file has mode %v, %v; want 0600", info.Mode(), err)
	}
	failure := errors.New("no")
	fails := func(*bbolt.Tx) error { return failure }
	if f, err := boltfile.Create(path, boltfile.Options{}, fails, nil); f != nil || !errors.Is(err, failure) {
		t.Errorf("Create with a failure: %v, %v; want the failure", f, err)
	}
	if f, err := boltfile.Create(path, boltfile.Options{}, with("half"), func() error { return failure }); f != nil || !errors.Is(err, failure) {
		t.Errorf("Create that gets no room: %v, %v; want the failure", f, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("the directory holds %v, %v; want the first file only", entries, err)
	}
	if err := first.Update(with("changed")); err != nil {
		t.Errorf("the first file, after Create failed: %v", err)
	}
	second, err := boltfile.Create(path, boltfile.Options{}, with("second"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := boltfile.Open(path, boltfile.Options{}); !errors.Is(err, boltfile.ErrLocked) {
		t.Errorf("Open of the second file while it is open: %v; want ErrLocked", err)
	}
	mustClose(t, second)
	mustClose(t, first)
	if got := value(t, path); got != "second" {
		t.Errorf("the file holds %q; want what the second one does", got)
	}
}

// TestMakeRoom: when it is called, the new file is complete, the former one still has its name, and no other process
// can make one.
func TestMakeRoom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	mustClose(t, create(t, path, "first"))
	second, err := boltfile.Create(path, boltfile.Options{NoSync: true}, with("second"), func() error {
		if got := value(t, path); got != "first" {
			t.Errorf("the file holds %q; want what the first one does", got)
		}
		if _, err := boltfile.Create(path, boltfile.Options{NoSync: true}, with("third"), nil); !errors.Is(err, boltfile.ErrLocked) {
			t.Errorf("Create while another one is being made: %v; want ErrLocked", err)
		}
		return os.Rename(path, path+".former")
	})
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, second)
	if first, second := value(t, path+".former"), value(t, path); first != "first" || second != "second" {
		t.Errorf("the former file holds %q, and the new one %q", first, second)
	}
}
