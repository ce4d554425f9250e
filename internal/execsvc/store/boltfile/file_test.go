package boltfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/execsvc/store/boltfile"
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

// value is what the file at path holds.
func value(t *testing.T, path string) (v string) {
	t.Helper()
	f, err := boltfile.Open(path, true)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.View(func(tx *bbolt.Tx) error { v = string(tx.Bucket(bucket).Get([]byte("key"))); return nil }); err != nil {
		t.Fatal(err)
	}
	return v
}

func mustClose(t *testing.T, f *boltfile.File) {
	t.Helper()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCreate: a new file takes the place of the old one when it is whole, and not before.
func TestCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	first, err := boltfile.Create(path, with("first"))
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	failure := errors.New("no")
	if _, err := boltfile.Create(path, func(tx *bbolt.Tx) error { return errors.Join(with("half")(tx), failure) }); !errors.Is(err, failure) {
		t.Fatalf("Create with a failure: %v; want the failure", err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("the directory holds %v, %v; want the first file only", entries, err)
	}
	if err := first.Update(with("changed")); err != nil {
		t.Errorf("the first file, after Create failed: %v", err)
	}
	second, err := boltfile.Create(path, with("second"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := boltfile.Open(path, false); !errors.Is(err, boltfile.ErrLocked) {
		t.Errorf("Open of the second file while it is open: %v; want ErrLocked", err)
	}
	mustClose(t, second)
	if got := value(t, path); got != "second" {
		t.Errorf("the file holds %q; want what the second one does", got)
	}
}

// TestOpenRefuses: what isn't a file of bbolt's is damaged; that there is none is something else.
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	fifo, text := filepath.Join(dir, "fifo"), filepath.Join(dir, "text")
	if err := errors.Join(unix.Mkfifo(fifo, 0o600), os.WriteFile(text, []byte(strings.Repeat("text", 9999)), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, fifo, text} {
		if _, err := boltfile.Open(path, false); !errors.Is(err, boltfile.ErrDamaged) {
			t.Errorf("Open of %s: %v; want ErrDamaged", path, err)
		}
	}
	if _, err := boltfile.Open(filepath.Join(dir, "none"), false); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, boltfile.ErrDamaged) {
		t.Errorf("Open of nothing: %v; want that it doesn't exist", err)
	}
}

// TestFaults: a file that is cut off while it is open gives errors, and lets go of its lock.
func TestFaults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	f, err := boltfile.Create(path, with(strings.Repeat("x", 20_000)))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 5000); err != nil {
		t.Fatal(err)
	}
	err = f.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucket).ForEach(func(_, v []byte) error {
			_ = string(v)
			return nil
		})
	})
	if !errors.Is(err, boltfile.ErrDamaged) {
		t.Errorf("View of a file that was cut off: %v; want ErrDamaged", err)
	}
	mustClose(t, f)
	if _, err := boltfile.Open(path, false); !errors.Is(err, boltfile.ErrDamaged) {
		t.Errorf("Open of it, once it is closed: %v; want ErrDamaged", err)
	}
}

// TestSetAside: nothing that was set aside is overwritten, and of many the last five stay. What isn't such a file stays too.
func TestSetAside(t *testing.T) {
	dir := t.TempDir()
	path, now := filepath.Join(dir, "file"), time.Date(2026, 2, 3, 4, 5, 6, 7, time.UTC)
	others := []string{path + ".damaged-x", path + ".new", filepath.Join(dir, "another.damaged-20260203T040506.000000007Z")}
	for _, other := range others {
		if err := os.WriteFile(other, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var asides []string
	for i := range 7 {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		// Two at a time.
		aside, err := boltfile.SetAside(path, "damaged", now.Add(time.Duration(i/2)*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		asides = append(asides, aside)
	}
	if asides[0] != path+".damaged-20260203T040506.000000007Z" {
		t.Errorf("it was set aside as %s", asides[0])
	}
	for i, aside := range asides {
		if _, err := os.Stat(aside); (err == nil) != (i >= 2) {
			t.Errorf("number %d of 7, %s: %v; want that the last five are there", i+1, aside, err)
		}
	}
	for _, other := range others {
		if _, err := os.Stat(other); err != nil {
			t.Errorf("%s: %v; want it untouched", other, err)
		}
	}
	if _, err := boltfile.SetAside(path, "damaged", now); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("SetAside of nothing: %v; want that it doesn't exist", err)
	}
}
