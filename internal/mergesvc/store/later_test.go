package store_test

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/store"
)

// TestDamagedLater: if the store is damaged while it is open, every later Commit fails; Replace writes a new
// one.
func TestDamagedLater(t *testing.T) {
	file, _ := sample(t)
	for what, damage := range map[string]func(path string) error{
		// The mapping faults.
		"no file left":       func(path string) error { return os.Truncate(path, 0) },
		"most of it cut off": func(path string) error { return os.Truncate(path, int64(2*os.Getpagesize())) },
		// bbolt panics.
		"zeros in the place of the pages": func(path string) error {
			return overwrite(path, make([]byte, len(file)), int64(2*os.Getpagesize()))
		},
		"garbage in the place of the pages": func(path string) error {
			return overwrite(path, bytes.Repeat([]byte{0xA5}, len(file)), int64(2*os.Getpagesize()))
		},
	} {
		t.Run(what, func(t *testing.T) {
			s := newSetting(t)
			if err := os.WriteFile(s.cfg.Path, file, 0o600); err != nil {
				t.Fatal(err)
			}
			st, c := s.open(t)
			if err := damage(s.cfg.Path); err != nil {
				t.Fatal(err)
			}
			update := rev(c.Number+1, change(revision.UPDATE, newPod("u30", "n30", 1, 500)))
			for range 2 {
				if err := st.Commit([]*revision.Revision{update}); !errors.Is(err, store.ErrDamaged) {
					t.Fatalf("Commit: %v; want ErrDamaged", err)
				}
			}
			c.Instance = "rescued"
			if err := st.Replace(c); err != nil {
				t.Fatalf("Replace: %v", err)
			}
			m := newModel(8192, c)
			mustCommit(t, st, update)
			m.apply(update)
			mustClose(t, st)
			if diff := cmp.Diff(describe(m.contents()), describe(s.contents(t))); diff != "" {
				t.Errorf("the store after Replace (-want +got):\n%s", diff)
			}
			if names := s.aside(t); len(names) != 1 {
				t.Errorf("beside the store there are %v; want the damaged file", names)
			}
		})
	}
}

func overwrite(path string, b []byte, at int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, at)
	return errors.Join(err, f.Close())
}

// TestClosedWhenDamaged: a damaged store closes its file, and the next Open sets it aside.
func TestClosedWhenDamaged(t *testing.T) {
	s := newSetting(t)
	st, _ := s.open(t)
	if err := os.Truncate(s.cfg.Path, 0); err != nil {
		t.Fatal(err)
	}
	if err := st.Commit([]*revision.Revision{rev(1)}); !errors.Is(err, store.ErrDamaged) {
		t.Fatalf("Commit: %v; want ErrDamaged", err)
	}
	mustClose(t, st)
	if s.contents(t); len(s.aside(t)) != 1 {
		t.Errorf("beside the store there are %v; want the damaged file", s.aside(t))
	}
}
