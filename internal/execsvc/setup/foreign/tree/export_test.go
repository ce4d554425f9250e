package tree

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/roottest"
)

// TestExportOfUnreadable: what can't be opened is left out of an archive, with a note, and the rest is in it.
func TestExportOfUnreadable(t *testing.T) {
	root, dir := newRoot(t)
	must(t, os.WriteFile(filepath.Join(dir, "secret"), nil, 0o600), os.Chmod(filepath.Join(dir, "secret"), 0),
		os.WriteFile(filepath.Join(dir, "public"), nil, 0o600), os.Chmod(filepath.Join(dir, "public"), 0o444),
		os.Mkdir(filepath.Join(dir, "closed"), 0o700), os.Chmod(filepath.Join(dir, "closed"), 0))
	if os.Getuid() == 0 { // The modes count for another user. That is the thread's: the test's file system user doesn't change.
		for at := dir; at != "/tmp" && at != "/"; at = filepath.Dir(at) {
			must(t, os.Chmod(at, 0o755))
		}
		must(t, os.Chmod(filepath.Join(dir, "old"), 0o444))
		runtime.LockOSThread()
		_, err := unix.SetfsuidRetUid(65534)
		must(t, err)
	}
	moved, err := Export{Root: root, Claim: claim}.Do(io.Discard)
	if os.Getuid() == 0 {
		_, back := unix.SetfsuidRetUid(0)
		must(t, back)
		runtime.UnlockOSThread()
	}
	must(t, err)
	notes := strings.Join(moved.Notes, "\n")
	if moved.Entries != 3 || moved.LeftOut != 2 || !strings.Contains(notes, `"secret" can't be opened`) || !strings.Contains(notes, `"closed" can't be opened`) {
		t.Errorf("%+v; want secret and closed left out", moved)
	}
}

// TestExportOfDeep: directories that are too deep are left out of an archive, with a note, and it can be imported.
func TestExportOfDeep(t *testing.T) {
	root, dir := newRoot(t)
	at, err := openRoot(dir)
	must(t, err)
	for range maxDepth + 3 {
		next, err := makeDir(at, "d", 0o755)
		must(t, err, at.Close())
		at = next
	}
	must(t, at.Close())
	var archive bytes.Buffer
	moved, err := Export{Root: root, Claim: claim}.Do(&archive)
	must(t, err)
	if moved.Entries != maxDepth+2 || moved.LeftOut != 1 || len(moved.Notes) != 1 {
		t.Errorf("%+v; want one directory without what it has", moved)
	}
	j := importing(root)
	j.MaxEntries, j.Claim = 2*maxDepth, "other/copy"
	again, err := j.Do(t.Context(), &archive)
	if err != nil || again.Entries != moved.Entries {
		t.Errorf("the import: %+v, %v", again, err)
	}
	must(t, Remove{Root: root, Claim: claim, As: "now-2"}.Do(), Sweep{Root: root}.Do())
}

// TestExportEnds: an error that isn't that of one file ends an export.
func TestExportEnds(t *testing.T) {
	for _, err := range []error{nil, unix.EMFILE, unix.ENOMEM, ErrMounted, ErrMissing, io.ErrUnexpectedEOF} {
		if x := (&exporter{}); x.leavesOut("a", err) || x.moved.LeftOut != 0 {
			t.Errorf("after %v the file is left out", err)
		}
	}
}

// TestUnremovable: the error of a file that chattr protects says so.
func TestUnremovable(t *testing.T) {
	if err := unremovable("unlink", "/a/b", unix.EPERM); !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "/a/b") ||
		!strings.Contains(err.Error(), "chattr -i") {
		t.Error(err)
	}
	if err := unremovable("rmdir", "/a/b", unix.EBUSY); !errors.Is(err, unix.EBUSY) || strings.Contains(fmt.Sprint(err), "chattr") {
		t.Error(err)
	}
}

// TestSweepGoesOn: one file that can't be removed keeps no other content from being removed.
func TestSweepGoesOn(t *testing.T) {
	root, _ := newRoot(t)
	for _, name := range []string{"a", "b", "c"} {
		must(t, os.MkdirAll(filepath.Join(root, incomplete, name, "d"), 0o700), os.WriteFile(filepath.Join(root, incomplete, name, "d", "f"), nil, 0o600))
	}
	protected, err := os.Open(filepath.Join(root, incomplete, "b", "d", "f"))
	must(t, err)
	defer protected.Close()
	const immutable = 0x10 // FS_IMMUTABLE_FL
	roottest.Able(t, unix.IoctlSetPointerInt(int(protected.Fd()), unix.FS_IOC_SETFLAGS, immutable))
	defer func() { _ = unix.IoctlSetPointerInt(int(protected.Fd()), unix.FS_IOC_SETFLAGS, 0) }()
	if err := (Sweep{Root: root}).Do(); err == nil || !strings.Contains(err.Error(), "b/d/f") || !strings.Contains(err.Error(), "chattr") {
		t.Errorf("%v; want an error about b/d/f", err)
	}
	if left := leftIn(t, root); len(left) != 1 || left[0] != "b" {
		t.Errorf("%v is left; want b", left)
	}
}
