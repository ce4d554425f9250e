package store_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// TestNotAStore: a file that was never a store is set aside.
func TestNotAStore(t *testing.T) {
	garbage := make([]byte, 100_000)
	random := rand.New(rand.NewPCG(5, 6))
	for i := range garbage {
		garbage[i] = byte(random.Uint32())
	}
	for name, file := range map[string][]byte{
		"empty": {}, "one byte": {0}, "text": []byte("apiVersion: v1\nkind: Pod\n"), "zeros": make([]byte, 1<<16), "garbage": garbage,
		"another bbolt file": boltFile(t, func(*bbolt.Tx) error { return nil }),
		"other buckets": boltFile(t, func(tx *bbolt.Tx) error {
			_, err := tx.CreateBucket([]byte("head"))
			return err
		}),
		"no checksum": boltFile(t, func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucket([]byte("head"))
			return errors.Join(err, b.Put([]byte("format"), []byte("1")))
		}),
	} {
		if !opened(t, name, file, nil) {
			t.Errorf("%s is taken for a store", name)
		}
	}
}

func boltFile(t *testing.T, fill func(*bbolt.Tx) error) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bolt")
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(fill), db.Close()); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// TestOtherVersion: a store of another version, of which only the format is known, is set aside under the version's
// name.
func TestOtherVersion(t *testing.T) {
	for _, version := range []string{"0", "2", "17"} {
		s := newSetting(t)
		err := os.WriteFile(s.cfg.Path, boltFile(t, func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucket([]byte("head"))
			key := []byte("format")
			sum := crc32.Checksum([]byte(string(key)+version), crc32.MakeTable(crc32.Castagnoli))
			return errors.Join(err, b.Put(key, append(binary.BigEndian.AppendUint32(nil, sum), version...)))
		}), 0o600)
		if err != nil {
			t.Fatal(err)
		}
		st, c := s.open(t)
		if diff := cmp.Diff([]string{".version-" + version + "-20260203T040506Z"}, s.aside(t)); diff != "" {
			t.Errorf("beside the store of version %s (-want +got):\n%s", version, diff)
		}
		if c.Number != 0 || !strings.Contains(s.log.String(), "format "+version) {
			t.Errorf("the store of version %s gives revision %d and the log\n%s\nwant 0, and the format named", version, c.Number, s.log)
		}
		mustCommit(t, st, rev(1))
	}
}

// TestNotAFile: anything at the path that isn't a file is set aside like a damaged one.
func TestNotAFile(t *testing.T) {
	for name, occupy := range map[string]func(path string) error{
		"a directory":     func(path string) error { return os.MkdirAll(filepath.Join(path, "with", "content"), 0o755) },
		"a pipe":          func(path string) error { return unix.Mkfifo(path, 0o600) },
		"a socket":        func(path string) error { return unix.Mknod(path, unix.S_IFSOCK|0o600, 0) },
		"a dangling link": func(path string) error { return os.Symlink("/missing", path) },
	} {
		s := newSetting(t)
		if err := occupy(s.cfg.Path); err != nil {
			t.Fatal(err)
		}
		st, c := s.open(t)
		mustCommit(t, st, rev(1))
		mustClose(t, st)
		if again := s.contents(t); again.Instance != c.Instance || again.Number != 1 {
			t.Errorf("%s: the store is %v; want the new one at revision 1", name, describe(again))
		}
		if names := s.aside(t); len(names) != 1 && name != "a dangling link" {
			t.Errorf("%s: beside the store there are %v; want the earlier files", name, names)
		}
	}
}

// TestPruned: of the files that were set aside, the newest are kept. Other files, and directories with
// contents, stay.
func TestPruned(t *testing.T) {
	s := newSetting(t)
	start := s.cfg.Now()
	for _, name := range []string{".damaged-20251231T235959Z.mine", ".damaged-yesterday", ".version-1-20251231T235959Z/mine"} {
		if err := os.MkdirAll(filepath.Dir(s.cfg.Path+name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.cfg.Path+name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 14 {
		// Two in each second.
		s.cfg.Now = func() time.Time { return start.Add(time.Duration(n/2) * time.Second) }
		if err := os.WriteFile(s.cfg.Path, fmt.Append(nil, n), 0o600); err != nil {
			t.Fatal(err)
		}
		s.contents(t)
	}
	want := []string{
		".damaged-20251231T235959Z.mine", ".damaged-20260203T040510Z-2", ".damaged-20260203T040511Z", ".damaged-20260203T040511Z-2",
		".damaged-20260203T040512Z", ".damaged-20260203T040512Z-2", ".damaged-yesterday", ".version-1-20251231T235959Z",
	}
	if diff := cmp.Diff(want, s.aside(t)); diff != "" {
		t.Errorf("beside the store (-want +got):\n%s", diff)
	}
	if newest, err := os.ReadFile(s.cfg.Path + ".damaged-20260203T040512Z-2"); err != nil || string(newest) != "13" {
		t.Errorf("the newest of them holds %q, %v; want 13", newest, err)
	}
	if !strings.Contains(s.log.String(), "can't be removed") {
		t.Error("the log doesn't say that a directory couldn't be removed")
	}
}
