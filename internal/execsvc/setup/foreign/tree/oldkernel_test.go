package tree

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/roottest"
)

// TestWithoutOpenat2: before Linux 5.6, and where a seccomp profile forbids the call, no link is followed and no mount is entered
// either. Without links and mounts all works.
func TestWithoutOpenat2(t *testing.T) {
	roottest.Need(t, "mounting")
	for _, errno := range []unix.Errno{0, unix.ENOSYS, unix.EPERM} {
		t.Run(errno.Error(), func(t *testing.T) {
			if errno != 0 {
				before := openat2
				openat2 = func(int, string, *unix.OpenHow) (int, error) { return -1, errno }
				t.Cleanup(func() { openat2 = before })
			}
			root, dir := newRoot(t)
			precious := filepath.Join(root, "precious")
			must(t, os.MkdirAll(precious, 0o755), os.WriteFile(filepath.Join(precious, "file"), []byte("must not be read"), 0o600))
			parent, err := openRoot(dir)
			must(t, err)
			defer parent.Close()

			must(t, os.Symlink(precious, filepath.Join(dir, "dir-link")), os.Symlink(filepath.Join(precious, "file"), filepath.Join(dir, "file-link")))
			if d, err := openDir(parent, "dir-link"); err == nil {
				t.Errorf("a link to a directory was followed: %v", d.Close())
			}
			if f, err := openFile(parent, "file-link"); err == nil {
				t.Errorf("a link to a file was followed: %v", f.Close())
			}
			var archive bytes.Buffer
			if _, err := (Export{Root: root, Claim: claim}).Do(&archive); err != nil || bytes.Contains(archive.Bytes(), []byte("must not be read")) {
				t.Errorf("an export of links: %v", err)
			}

			must(t, os.Mkdir(filepath.Join(dir, "mounted"), 0o755), os.WriteFile(filepath.Join(dir, "covered"), nil, 0o600))
			for from, at := range map[string]string{precious: "mounted", filepath.Join(precious, "file"): "covered"} {
				to := filepath.Join(dir, at)
				roottest.Able(t, unix.Mount(from, to, "", unix.MS_BIND, ""))
				t.Cleanup(func() { _ = unix.Unmount(to, unix.MNT_DETACH) })
			}
			if d, err := openDir(parent, "mounted"); !errors.Is(err, ErrMounted) {
				t.Errorf("a mounted directory: %v, %v", d, err)
			}
			if f, err := openFile(parent, "covered"); !errors.Is(err, ErrMounted) {
				t.Errorf("a mounted file: %v, %v", f, err)
			}
			if _, err := (Export{Root: root, Claim: claim}).Do(io.Discard); !errors.Is(err, ErrMounted) {
				t.Errorf("an export of mounts: %v", err)
			}
			if err := removeAll(parent, "mounted"); err == nil {
				t.Error("a mounted directory was removed")
			}
			if text, err := os.ReadFile(filepath.Join(precious, "file")); err != nil || string(text) != "must not be read" {
				t.Errorf("the file behind the mounts has %q, %v", text, err)
			}
		})
	}
}

// TestSyncOfEach: where syncfs reports no error, an import syncs each file and directory, and fails if one can't be written.
func TestSyncOfEach(t *testing.T) {
	root, dir := newRoot(t)
	j := importing(root)
	errDisk := errors.New("the disk is bad")
	names := map[string]int{}
	fails := ""
	j.syncEach = func(f *os.File) error {
		if name := filepath.Base(f.Name()); name != fails {
			names[name]++
			return f.Sync()
		}
		return errDisk
	}
	entries := archiveOf(t, regular("a", 3), regular("d/b", 3))
	for _, fails = range []string{"a", "b", "d", j.As} {
		if _, err := j.Do(t.Context(), bytes.NewReader(entries)); !errors.Is(err, errDisk) {
			t.Errorf("%s can't be written: %v", fails, err)
		}
		if _, err := os.Lstat(filepath.Join(dir, "old")); err != nil || len(leftIn(t, root)) != 0 {
			t.Errorf("%s can't be written: %v, left %v; want an unchanged volume", fails, err, leftIn(t, root))
		}
	}
	clear(names)
	fails = ""
	_, err := j.Do(t.Context(), bytes.NewReader(entries))
	must(t, err)
	if len(names) != 4 {
		t.Errorf("synced are %v; want two files, their directory and the volume's", names)
	}
}

// TestSyncFileSystem: the sync of a file system fails if that of its directory does. proc has no fsync, and its syncfs always succeeds, as
// that of other file systems before Linux 5.8.
func TestSyncFileSystem(t *testing.T) {
	proc, err := os.Open("/proc")
	must(t, err)
	defer proc.Close()
	must(t, unix.Syncfs(int(proc.Fd())))
	if err := syncFileSystem(proc); !errors.Is(err, unix.EINVAL) {
		t.Errorf("the error is %v; want EINVAL", err)
	}
}
