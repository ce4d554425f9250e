package logrotation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// A pod replaces its files by others. What is outside its directory isn't read, changed or removed, nothing waits, and
// the logs of other containers are rotated.
func TestHostileFiles(t *testing.T) {
	const name = "0.log.20000101-000000"
	outside := t.TempDir()
	secret := filepath.Join(outside, "0.log")
	for what, tc := range map[string]struct {
		plant func(w *writer) error
		// rotates is whether the log can be rotated nevertheless.
		rotates bool
	}{
		"the log is a link":            {plant: func(w *writer) error { return errors.Join(os.Remove(w.path), os.Symlink(secret, w.path)) }},
		"the log is a FIFO":            {plant: func(w *writer) error { return errors.Join(os.Remove(w.path), unix.Mkfifo(w.path, 0o600)) }},
		"the log is a directory":       {plant: func(w *writer) error { return errors.Join(os.Remove(w.path), os.Mkdir(w.path, 0o700)) }},
		"the directory is a link":      {plant: func(w *writer) error { return errors.Join(os.Rename(w.dir, w.dir+"2"), os.Symlink(outside, w.dir)) }},
		"a rotated log is a link":      {plant: func(w *writer) error { return os.Symlink(secret, filepath.Join(w.dir, name)) }, rotates: true},
		"a rotated log is a FIFO":      {plant: func(w *writer) error { return unix.Mkfifo(filepath.Join(w.dir, name), 0o600) }, rotates: true},
		"a rotated log is a directory": {plant: func(w *writer) error { return os.Mkdir(filepath.Join(w.dir, name), 0o700) }, rotates: true},
		"a rotated log is the log":     {plant: func(w *writer) error { return os.Link(w.path, filepath.Join(w.dir, name)) }, rotates: true},
		"the temporary file is a link": {plant: func(w *writer) error {
			return plantBeside(w, name, ".tmp", func(p string) error { return os.Symlink(secret, p) })
		}, rotates: true},
		"the temporary file is a FIFO": {plant: func(w *writer) error {
			return plantBeside(w, name, ".tmp", func(p string) error { return unix.Mkfifo(p, 0o600) })
		}, rotates: true},
		"the compressed file is a directory": {plant: func(w *writer) error {
			return plantBeside(w, name, ".gz", func(p string) error { return os.Mkdir(p, 0o700) })
		}, rotates: true},
		"the compressed file is a link": {plant: func(w *writer) error {
			return plantBeside(w, name, ".gz", func(p string) error { return os.Symlink(secret, p) })
		}, rotates: true},
		"the temporary file is a directory": {plant: func(w *writer) error {
			return plantBeside(w, name, ".tmp", func(p string) error { return os.Mkdir(p, 0o700) })
		}, rotates: true},
		"a rotated log is another pod's log": {plant: func(w *writer) error {
			return os.Link(filepath.Join(filepath.Dir(filepath.Dir(w.dir)), "default_good_uid-good", "main", "0.log"), filepath.Join(w.dir, name))
		}, rotates: true},
		"names with ends of lines": {plant: func(w *writer) error {
			return errors.Join(os.WriteFile(filepath.Join(w.dir, name+"\n"), nil, 0o600), os.WriteFile(filepath.Join(w.dir, "0.log.\n0000101-000000"), nil, 0o600))
		}, rotates: true},
		"a sparse file": {plant: func(w *writer) error {
			return errors.Join(os.WriteFile(filepath.Join(w.dir, name), nil, 0o600), os.Truncate(filepath.Join(w.dir, name), 1<<40))
		}, rotates: true},
		"the last possible name": {plant: func(w *writer) error {
			return os.WriteFile(filepath.Join(w.dir, "0.log.99991231-235959-999999"), nil, 0o600)
		}, rotates: true},
		"files of the far future": {plant: func(w *writer) error {
			return os.WriteFile(filepath.Join(w.dir, "0.log.99991231-235959-998"), nil, 0o600)
		}, rotates: true},
		"a crowd of rotated logs": {plant: func(w *writer) error { return crowd(w.dir, "0.log.20000101-000000-%03d") }, rotates: true},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				check(t, os.WriteFile(secret, []byte(strings.Repeat("secret\n", 1000)), 0o600))
				s := newSite(t, "bad", "good")
				s.write("bad", 20)
				s.write("good", 20)
				check(t, tc.plant(s.writers["bad"]))
				m := s.manager(Config{})
				for range 8 {
					m.round(t.Context())
					s.write("bad", 10)
					s.write("good", 10)
					time.Sleep(time.Second)
				}
				if n := s.requests("good"); n != 8 {
					t.Errorf("the other log was rotated %d times", n)
				}
				s.wantLines("good", s.writers["good"].last-40)
				if n := s.requests("bad"); tc.rotates && n < 5 || !tc.rotates && n > 0 {
					t.Errorf("its log was rotated %d times: %s", n, s.logged())
				}
				if !tc.rotates && !strings.Contains(s.logged(), "can't rotate") {
					t.Errorf("the log is %q", s.logged())
				}
				if plain := s.count("bad", "") - s.count("bad", ".gz"); tc.rotates && plain > 7 {
					t.Errorf("the files are %q", s.files("bad"))
				}
				entries, err := os.ReadDir(outside)
				check(t, err)
				text, err := os.ReadFile(secret)
				if len(entries) != 1 || len(text) != 7000 || err != nil {
					t.Errorf("outside there is %v, %d bytes, %v", entries, len(text), err)
				}
			})
		})
	}
}

// plantBeside creates a rotated log, and another file beside it.
func plantBeside(w *writer, name, suffix string, plant func(path string) error) error {
	return errors.Join(os.WriteFile(filepath.Join(w.dir, name), []byte("x"), 0o600), plant(filepath.Join(w.dir, name+suffix)))
}

func crowd(dir, format string) error {
	for i := range 12_000 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf(format, i+1)), nil, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Files of other names stay, but a directory with too many of them keeps its log from being rotated: the bound can't be
// kept.
func TestTooManyFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, "a")
		s.write("a", 20)
		check(t, crowd(s.writers["a"].dir, "other-%d"))
		m := s.manager(Config{})
		for range 3 {
			m.round(t.Context())
		}
		if n := s.requests("a"); n != 0 || !strings.Contains(s.logged(), "has more than 10000 files") {
			t.Errorf("%d requests, and the log is %q", n, s.logged())
		}
		if n := len(s.files("a")); n != 12_001 {
			t.Errorf("%d files", n)
		}
	})
}
