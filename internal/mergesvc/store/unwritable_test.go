package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/disktest"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/store"
	"github.com/podstream/podstream/internal/roottest"
)

// TestFullDisk: a commit on a full disk is an error, earlier commits are kept, and once there is space again it
// succeeds.
func TestFullDisk(t *testing.T) {
	dir := disktest.Small(t)
	s := settingIn(dir)
	s.cfg.NoSync = false
	st, c := s.open(t)
	m := newModel(8192, c)
	first := rev(1, change(revision.ADD, newPod("u1", "a", 1, 100)))
	mustCommit(t, st, first)
	m.apply(first)
	free := disktest.FillUp(t, dir)

	large := rev(2, change(revision.ADD, newPod("u2", "b", 2, 100_000)))
	for range 3 {
		if err := st.Commit([]*revision.Revision{large}); !errors.Is(err, store.ErrUnwritable) || !errors.Is(err, unix.ENOSPC) {
			t.Fatalf("Commit on a full disk: %v; want ErrUnwritable, with the reason", err)
		}
		if err := st.Replace(m.contents()); !errors.Is(err, store.ErrUnwritable) {
			t.Fatalf("Replace on a full disk: %v; want ErrUnwritable", err)
		}
	}
	mustClose(t, st)
	st, c = s.open(t)
	if diff := cmp.Diff(describe(m.contents()), describe(c)); diff != "" {
		t.Errorf("the store on a full disk (-want +got):\n%s", diff)
	}
	if err := st.Commit([]*revision.Revision{large}); !errors.Is(err, store.ErrUnwritable) {
		t.Fatalf("Commit on a full disk: %v; want ErrUnwritable", err)
	}
	free()
	mustCommit(t, st, large)
	m.apply(large)
	if err := st.Replace(m.contents()); err != nil {
		t.Fatalf("Replace, once there is room: %v", err)
	}
	mustClose(t, st)
	if diff := cmp.Diff(describe(m.contents()), describe(s.contents(t))); diff != "" {
		t.Errorf("the store, once there was room (-want +got):\n%s", diff)
	}
	if names, _ := filepath.Glob(s.cfg.Path + "?*"); len(names) > 0 {
		t.Errorf("beside the store there are %v; want nothing", names)
	}
}

// TestFullDiskAtFirst: if no store can be created there is an error, and nothing is left of the attempt.
func TestFullDiskAtFirst(t *testing.T) {
	dir := disktest.Small(t)
	free := disktest.FillUp(t, dir)
	s := settingIn(dir)
	if st, c, err := store.Open(s.cfg); st != nil || c != nil || !errors.Is(err, store.ErrUnwritable) {
		t.Fatalf("Open: %v, %v, %v; want ErrUnwritable only", st, c, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the directory holds %v, %v; want only the file that fills it", entries, err)
	}
	free()
	s.contents(t)
}

// TestFullDiskAtStart: a store on a disk that has no space even for a transaction without changes is read.
func TestFullDiskAtStart(t *testing.T) {
	dir := disktest.Small(t)
	s := settingIn(dir)
	st, c := s.open(t)
	m := newModel(8192, c)
	one := rev(1, change(revision.ADD, newPod("u1", "a", 1, 0)))
	mustCommit(t, st, one)
	m.apply(one)
	mustClose(t, st)
	punchFreePages(t, s.cfg.Path)
	free := disktest.FillUp(t, dir)
	st, c, err := store.Open(s.cfg)
	if st != nil || !errors.Is(err, store.ErrUnwritable) || !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("Open: %v, %v; want ErrUnwritable, with the reason", st, err)
	}
	if diff := cmp.Diff(describe(m.contents()), describe(c)); diff != "" {
		t.Errorf("the store on a full disk (-want +got):\n%s", diff)
	}
	free()
	if diff := cmp.Diff(describe(m.contents()), describe(s.contents(t))); diff != "" {
		t.Errorf("the store, once there is room (-want +got):\n%s", diff)
	}
}

// punchFreePages returns the space of free pages to the file system, as if it were copy-on-write.
func punchFreePages(t *testing.T, path string) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	size, free := int64(db.Info().PageSize), []int64{}
	err = db.View(func(tx *bbolt.Tx) error {
		for id := 0; ; id++ {
			if info, err := tx.Page(id); err != nil || info == nil {
				return err
			} else if info.Type == "free" {
				free = append(free, int64(id)*size)
			}
		}
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, at := range free {
		if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, size); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReadOnlyMount: the store is read, and the error has the reason why it can't be written.
func TestReadOnlyMount(t *testing.T) {
	dir := disktest.Small(t)
	s := settingIn(dir)
	st, c := s.open(t)
	m := newModel(8192, c)
	one := rev(1, change(revision.ADD, newPod("u1", "a", 1, 0)))
	mustCommit(t, st, one)
	m.apply(one)
	mustClose(t, st)
	remount := func(flags uintptr) {
		t.Helper()
		if err := unix.Mount("", dir, "", unix.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	remount(unix.MS_RDONLY)
	st, c, err := store.Open(s.cfg)
	if st != nil || !errors.Is(err, store.ErrUnwritable) || !errors.Is(err, unix.EROFS) {
		t.Fatalf("Open: %v, %v; want ErrUnwritable, with the reason", st, err)
	}
	if diff := cmp.Diff(describe(m.contents()), describe(c)); diff != "" {
		t.Errorf("the store on a read-only file system (-want +got):\n%s", diff)
	}
	remount(0)
	if diff := cmp.Diff(describe(m.contents()), describe(s.contents(t))); diff != "" {
		t.Errorf("the store, once it can be written again (-want +got):\n%s", diff)
	}

	if err := os.Truncate(s.cfg.Path, 5000); err != nil {
		t.Fatal(err)
	}
	remount(unix.MS_RDONLY)
	st, c, err = store.Open(s.cfg)
	if st != nil || c != nil || !errors.Is(err, store.ErrUnwritable) || !errors.Is(err, store.ErrDamaged) {
		t.Errorf("Open of a damaged store: %v, %v, %v; want that it is damaged and can't be written", st, c, err)
	}
	remount(0)
	if err := os.Remove(s.cfg.Path); err != nil {
		t.Fatal(err)
	}
	remount(unix.MS_RDONLY)
	if st, c, err := store.Open(s.cfg); st != nil || c != nil || !errors.Is(err, store.ErrUnwritable) {
		t.Errorf("Open without a store: %v, %v, %v; want ErrUnwritable only", st, c, err)
	}
}

// TestPermissions opens the store as a user whose permissions end at each point in turn.
func TestPermissions(t *testing.T) {
	roottest.Need(t, "mounting")
	const unprivileged = 65534
	for _, tc := range []struct {
		name         string
		dir, file    os.FileMode
		damaged      bool
		wantContents bool
	}{
		{name: "the file may be read only", dir: 0o777, file: 0o444, wantContents: true},
		{name: "neither may be written", dir: 0o555, file: 0o444, wantContents: true},
		{name: "the file may not be read", dir: 0o777, file: 0o000},
		{name: "the directory may not be entered", dir: 0o600, file: 0o666},
		{name: "the damaged file may not be renamed", dir: 0o555, file: 0o666, damaged: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			s := settingIn(dir)
			want := s.contents(t)
			if tc.damaged {
				if err := os.Truncate(s.cfg.Path, 5000); err != nil {
					t.Fatal(err)
				}
			}
			// The directory above is the test's own.
			err := errors.Join(os.Chmod(s.cfg.Path, tc.file), os.Chmod(dir, tc.dir), os.Chmod(filepath.Dir(dir), 0o755))
			if err != nil {
				t.Fatal(err)
			}
			var st *store.Store
			var c *store.Contents
			done := make(chan struct{})
			go func() {
				defer close(done)
				// The thread ends with the goroutine because it stays locked, and so does the other user ID.
				runtime.LockOSThread()
				if err = unix.Setfsuid(unprivileged); err == nil {
					st, c, err = store.Open(s.cfg)
				}
			}()
			<-done
			if st != nil || !errors.Is(err, store.ErrUnwritable) {
				t.Fatalf("Open: %v, %v; want ErrUnwritable", st, err)
			}
			switch {
			case !tc.wantContents && c != nil:
				t.Errorf("Open gives %v; want nothing, as it can't be read", describe(c))
			case tc.wantContents && c == nil:
				t.Errorf("Open gives nothing; want what can be read: %v", err)
			case tc.wantContents:
				if diff := cmp.Diff(describe(want), describe(c)); diff != "" {
					t.Errorf("what was read (-want +got):\n%s", diff)
				}
			}
		})
	}
}
