package boltfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/boltfile"
)

var bucket = []byte("bucket")

// with is a transaction that puts a value.
func with(value string) func(tx *bbolt.Tx) error {
	return func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(bucket)
		if err != nil {
			return err
		}
		return b.Put([]byte("key"), []byte(value))
	}
}

// value is the content of the file at path.
func value(t *testing.T, path string) (v string) {
	t.Helper()
	f, err := boltfile.Open(path, boltfile.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.View(func(tx *bbolt.Tx) error { v = string(tx.Bucket(bucket).Get([]byte("key"))); return nil }); err != nil {
		t.Fatal(err)
	}
	return v
}

// create makes a file that holds a value.
func create(t *testing.T, path, value string) *boltfile.File {
	t.Helper()
	f, err := boltfile.Create(path, boltfile.Options{NoSync: true}, with(value), nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func mustClose(t *testing.T, f *boltfile.File) {
	t.Helper()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestOpenRefuses: a file that isn't bbolt's is damaged; a missing file isn't.
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	fifo, text := filepath.Join(dir, "fifo"), filepath.Join(dir, "text")
	if err := errors.Join(unix.Mkfifo(fifo, 0o600), os.WriteFile(text, []byte(strings.Repeat("text", 9999)), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, fifo, text} {
		f, err := boltfile.Open(path, boltfile.Options{})
		if !errors.Is(err, boltfile.ErrDamaged) || !boltfile.Unusable(err) {
			t.Errorf("Open of %s: %v; want ErrDamaged", path, err)
		}
		if f != nil {
			mustClose(t, f)
		}
	}
	_, err := boltfile.Open(filepath.Join(dir, "none"), boltfile.Options{})
	if !errors.Is(err, fs.ErrNotExist) || errors.Is(err, boltfile.ErrDamaged) {
		t.Errorf("Open of nothing: %v; want that it doesn't exist", err)
	}
}

// TestFaults: a file that is cut off while it is open gives errors, each time the same, and releases its lock.
func TestFaults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	f := create(t, path, strings.Repeat("x", 20_000))
	if err := os.Truncate(path, 5000); err != nil {
		t.Fatal(err)
	}
	err := f.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucket).ForEach(func(_, v []byte) error {
			_ = string(v)
			return nil
		})
	})
	if !errors.Is(err, boltfile.ErrDamaged) {
		t.Errorf("View of a file that was cut off: %v; want ErrDamaged", err)
	}
	if again := f.Update(with("")); again == nil || again.Error() != err.Error() {
		t.Errorf("Update after that: %v; want %v", again, err)
	}
	mustClose(t, f)
	f, err = boltfile.Open(path, boltfile.Options{})
	if !errors.Is(err, boltfile.ErrDamaged) {
		t.Errorf("Open of it, once it is closed: %v; want ErrDamaged", err)
	}
	mustClose(t, f)
}

// TestDamagedIsHeld: the process that finds damage keeps the lock, so that no other process finds it until it is
// handled.
func TestDamagedIsHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, 1<<16), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := boltfile.Open(path, boltfile.Options{})
	if f == nil || !errors.Is(err, boltfile.ErrDamaged) {
		t.Fatalf("Open of zeros: %v, %v; want a file, and ErrDamaged", f, err)
	}
	if viewErr := f.View(func(*bbolt.Tx) error { return nil }); viewErr == nil || viewErr.Error() != err.Error() {
		t.Errorf("View of a damaged file: %v; want %v", viewErr, err)
	}
	if _, err := boltfile.Open(path, boltfile.Options{ReadOnly: true}); !errors.Is(err, boltfile.ErrLocked) {
		t.Errorf("Open while another process has it: %v; want ErrLocked", err)
	}
	mustClose(t, f)
}

// TestUpdateErrors: an error of the caller's function isn't a failed write, and leaves the file unchanged.
func TestUpdateErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	f := create(t, path, "first")
	failure := errors.New("no")
	err := f.Update(func(tx *bbolt.Tx) error { return errors.Join(with("half")(tx), failure) })
	if !errors.Is(err, failure) || errors.Is(err, boltfile.ErrUnwritable) {
		t.Errorf("Update with a failure: %v; want that, and nothing of the disk", err)
	}
	mustClose(t, f)
	if got := value(t, path); got != "first" {
		t.Errorf("the file holds %q; want what was put there at first", got)
	}
}

// TestGone: a write to a file that was removed or replaced is an error, whether it was opened or created.
func TestGone(t *testing.T) {
	for name, harm := range map[string]func(path string) error{
		"removed":  os.Remove,
		"replaced": func(path string) error { return errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			created := create(t, path, "first")
			if err := errors.Join(created.Named(), created.Update(with("second"))); err != nil {
				t.Fatalf("before: %v", err)
			}
			mustClose(t, created)
			f, err := boltfile.Open(path, boltfile.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Update(with("third")); err != nil {
				t.Fatalf("before: %v", err)
			}
			if err := harm(path); err != nil {
				t.Fatal(err)
			}
			if err := f.Named(); !errors.Is(err, boltfile.ErrGone) {
				t.Errorf("Named: %v; want ErrGone", err)
			}
			if err := f.Update(with("fourth")); !errors.Is(err, boltfile.ErrGone) {
				t.Errorf("Update: %v; want ErrGone", err)
			}
			mustClose(t, f)
		})
	}
}

// TestReadOnly: readers share a file, and none of them can write to it.
func TestReadOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	mustClose(t, create(t, path, "first"))
	f, err := boltfile.Open(path, boltfile.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := value(t, path); got != "first" {
		t.Errorf("another reader finds %q; want the value", got)
	}
	if err := f.Update(with("second")); !errors.Is(err, boltfile.ErrUnwritable) {
		t.Errorf("Update of a file that is only read: %v; want ErrUnwritable", err)
	}
	mustClose(t, f)
}
