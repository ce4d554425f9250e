package atomicdir

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/execsvc/setup/volume/payload"
	"github.com/podstream/podstream/internal/roottest"
)

// TestRepairs: in any state of the directory, the next Write writes its content, and changes nothing outside.
func TestRepairs(t *testing.T) {
	const outside = "outside"
	for name, damage := range map[string]func(dir, content string) error{
		"a file more":        func(_, content string) error { return os.WriteFile(content+"/sub/more", nil, 0o600) },
		"a directory more":   func(_, content string) error { return os.Mkdir(content+"/more", 0o700) },
		"a file less":        func(_, content string) error { return os.Remove(content + "/sub/b") },
		"a file cut short":   func(_, content string) error { return os.Truncate(content+"/a", 0) },
		"another mode":       func(_, content string) error { return os.Chmod(content+"/a", 0o777) },
		"a directory's mode": func(_, content string) error { return os.Chmod(content+"/sub", 0o777) },
		"a link for a file": func(_, content string) error {
			return swap(content+"/a", func(p string) error { return os.Symlink("sub/b", p) })
		},
		"a pipe for a file": func(_, content string) error {
			return swap(content+"/a", func(p string) error { return unix.Mkfifo(p, 0o644) })
		},
		"a link for a folder": func(dir, content string) error {
			return swap(content+"/sub", func(p string) error { return os.Symlink(dir+"/../"+outside, p) })
		},
		"no content": func(_, content string) error { return os.RemoveAll(content) },
		"no ..data":  func(dir, _ string) error { return os.Remove(dir + "/..data") },
		"..data outside": func(dir, _ string) error {
			return swap(dir+"/..data", func(p string) error { return os.Symlink("../"+outside, p) })
		},
		"..data to its draft": func(dir, content string) error {
			draft := filepath.Join(dir, draftLink)
			if err := os.Symlink(content, draft); err != nil {
				return err
			}
			return swap(dir+"/..data", func(p string) error { return os.Symlink(draftLink, p) })
		},
		"..data to its parent": func(dir, _ string) error {
			return swap(dir+"/..data", func(p string) error { return os.Symlink("..", p) })
		},
		"..data to itself": func(dir, _ string) error {
			return swap(dir+"/..data", func(p string) error { return os.Symlink("..data", p) })
		},
		"..data a directory": func(dir, _ string) error {
			return swap(dir+"/..data", func(p string) error { return os.MkdirAll(p+"/x/y", 0o755) })
		},
		"a draft of ..data": func(dir, _ string) error { return os.Symlink("..none", dir+"/..data_tmp") },
		"half a content":    func(dir, _ string) error { return os.MkdirAll(dir+"/..2026_11_21_00_00_00.1/x/y", 0o700) },
		"a former name":     func(dir, _ string) error { return os.Symlink("..data/former", dir+"/former") },
		"a name less":       func(dir, _ string) error { return os.Remove(dir + "/a") },
		"a name outside": func(dir, _ string) error {
			return swap(dir+"/sub", func(p string) error { return os.Symlink("../"+outside, p) })
		},
		"a file for a name": func(dir, _ string) error {
			return swap(dir+"/sub", func(p string) error { return os.WriteFile(p, nil, 0o600) })
		},
		"a pipe for a name": func(dir, _ string) error {
			return swap(dir+"/sub", func(p string) error { return unix.Mkfifo(p, 0o600) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			dir, other := filepath.Join(parent, "volume"), filepath.Join(parent, outside)
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(other, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(other+"/b", []byte("2"), 0o644); err != nil {
				t.Fatal(err)
			}
			files := text("a", "1", "sub/b", "2")
			mustWrite(t, dir, files, nil, true)
			content, err := os.Readlink(dir + "/..data")
			if err != nil {
				t.Fatal(err)
			}
			before := fingerprint(t, other)
			if err := damage(dir, filepath.Join(dir, content)); err != nil {
				t.Fatal(err)
			}
			if _, err := Write(dir, files, nil); err != nil {
				t.Fatal(err)
			}
			checkContent(t, dir, files)
			if fingerprint(t, other) != before {
				t.Error("something outside of the volume has changed")
			}
			mustWrite(t, dir, files, nil, false)
		})
	}
}

// swap replaces an entry.
func swap(path string, instead func(path string) error) error {
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	return instead(path)
}

// TestMountPointsStay: package volume's directories for mounts below this one stay, also if a file has that name.
func TestMountPointsStay(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"mine", "a/nested"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mustWrite(t, dir, text("a", "hidden", "b", "seen"), nil, true)
	mustWrite(t, dir, text("b", "seen"), nil, true)
	got := listing(t, dir)
	delete(got, got[dataLink])
	delete(got, dataLink)
	if diff := cmp.Diff(map[string]string{"mine": "a directory", "a": "a directory", "b": "..data/b"}, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(dir, "a/nested")); err != nil {
		t.Error(err)
	}
}

// TestNotThroughMounts: a mount in a former content is not changed, the new content is visible, and after an unmount
// the rest is removed.
func TestNotThroughMounts(t *testing.T) {
	roottest.Need(t, "chown")
	dir, other := t.TempDir(), t.TempDir()
	if err := os.WriteFile(other+"/precious", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, dir, text("sub/a", "1"), nil, true)
	at, err := filepath.EvalSymlinks(dir + "/sub")
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(other, at, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	// Its name sorts after the content that can't be removed.
	leftover := filepath.Join(dir, "..zzz")
	if err := os.Mkdir(leftover, 0o755); err != nil {
		t.Fatal(err)
	}
	var next map[string]payload.File
	for _, data := range []string{"2", "3"} {
		next = text("sub/a", data)
		if changed, err := Write(dir, next, nil); !errors.Is(err, unix.EBUSY) || !changed {
			t.Errorf("Write is %v, %v; want a change, and an error of the mount", changed, err)
		}
		if got, err := os.ReadFile(dir + "/sub/a"); string(got) != data || err != nil {
			t.Errorf("sub/a has %q, %v; want the new content, %q", got, err, data)
		}
	}
	if _, err := os.Stat(other + "/precious"); err != nil {
		t.Errorf("it was removed through a mount: %v", err)
	}
	if _, err := os.Stat(leftover); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("files that a kill left still exist: %v", err)
	}
	if err := unix.Unmount(at, 0); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, dir, next, nil, false)
	checkContent(t, dir, next)
}
