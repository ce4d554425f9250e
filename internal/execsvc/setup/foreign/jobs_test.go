package foreign

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/execsvc/setup/volume/ownership"
	"github.com/podstream/podstream/internal/execsvc/setup/volume/subpath"
	"github.com/podstream/podstream/internal/roottest"
)

// TestDied: a server that has died is an error by which the mount is known as corrupted, and the mount can be undone.
func TestDied(t *testing.T) {
	h, s := hung(t)
	s.Die()
	_, err := h.Do(t.Context(), share, Job{Look: s.Dir})
	if !errors.Is(err, unix.ENOTCONN) || !IsCorrupted(err) || IsUnchanged(err) {
		t.Fatalf("error %v, want ENOTCONN", err)
	}
	if _, err := h.Do(t.Context(), share, Job{Unmount: &Unmount{Target: s.Dir}}); err != nil {
		t.Fatal(err)
	}
	a, err := h.Do(t.Context(), share, Job{Look: s.Dir})
	if err != nil || a.Kind != Directory || a.Usage.Capacity == 0 {
		t.Fatalf("%+v, %v", a, err)
	}
}

// TestMountOverDead: a mount takes the place of one whose server has died.
func TestMountOverDead(t *testing.T) {
	h, s := hung(t)
	s.Die()
	source := t.TempDir()
	if err := os.WriteFile(filepath.Join(source, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	job := Job{Mount: &Mount{Source: source, Target: s.Dir, Options: []string{"bind"}}}
	for range 2 { // The second one finds it.
		if _, err := h.Do(t.Context(), "disk", job); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(s.Dir, "file")); err != nil {
			t.Fatal(err)
		}
		if n := len(mustMounts(t, s.Dir)); n != 1 {
			t.Fatalf("%d mounts", n)
		}
	}
	for range 2 { // The second one has nothing to do.
		if _, err := h.Do(t.Context(), "disk", Job{Unmount: &Unmount{Target: s.Dir}}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(mustMounts(t, s.Dir)); n != 0 {
		t.Fatalf("%d mounts", n)
	}
}

func mustMounts(t *testing.T, path string) []string {
	t.Helper()
	all, err := mountsAt(path)
	if err != nil {
		t.Fatal(err)
	}
	var points []string
	for i := range all {
		points = append(points, all[i].Point)
	}
	return points
}

// TestMountFails: a mount that fails says so, and that nothing has changed.
func TestMountFails(t *testing.T) {
	roottest.Need(t, "mounting")
	h := New(Config{})
	_, err := h.Do(t.Context(), "disk", Job{Mount: &Mount{Source: "/nowhere", Target: t.TempDir(), Options: []string{"bind"}}})
	if err == nil || !IsUnchanged(err) || !strings.Contains(err.Error(), "/nowhere") {
		t.Fatalf("error %v", err)
	}
	h.awaitNone(t)
}

// TestMountInBackground: a mount(8) that succeeds before anything is mounted is an error: the pod would write to the node's
// disk.
func TestMountInBackground(t *testing.T) {
	roottest.Need(t, "mounting")
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "mount"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	h := New(Config{})
	_, err := h.Do(t.Context(), "disk", Job{Mount: &Mount{Source: "s:/", Target: t.TempDir(), Type: "nfs", Options: []string{"bg"}}})
	if err == nil || !strings.Contains(err.Error(), "nothing is mounted") {
		t.Errorf("error %v", err)
	}
	h.awaitNone(t)
}

// TestGroup: the group of files is changed by a helper.
func TestGroup(t *testing.T) {
	roottest.Need(t, "chown")
	h, dir := New(Config{}), t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Do(t.Context(), "disk", Job{Group: &ownership.Request{Dir: dir, Group: 4711}}); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil || st.Gid != 4711 || st.Mode&0o777 != 0o660 {
		t.Fatalf("group %d, mode %o, %v", st.Gid, st.Mode, err)
	}
	h.awaitNone(t)
}

// TestSubPath: a subPath is bound by a helper, also a link that leads out of the volume is refused, and it is removed.
func TestSubPath(t *testing.T) {
	roottest.Need(t, "mounting")
	h, dir, pod := New(Config{}), t.TempDir(), t.TempDir()
	if err := os.Symlink("/etc", filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(pod, "volume-subpaths", "data", "main", "0")
	_, err := h.Do(t.Context(), "disk", Job{SubPath: &SubPath{Root: dir, SubPath: "out", Target: target}})
	if !errors.Is(err, subpath.ErrOutside) {
		t.Fatalf("error %v, want ErrOutside", err)
	}
	a, err := h.Do(t.Context(), "disk", Job{SubPath: &SubPath{Root: dir, SubPath: "new/deep", Target: target}})
	if err != nil || a.Path != target || len(mustMounts(t, target)) != 1 {
		t.Fatalf("%+v, %v", a, err)
	}
	if _, err := h.Do(t.Context(), "disk", Job{CleanSubPaths: filepath.Join(pod, "volume-subpaths")}); err != nil {
		t.Fatal(err)
	}
	if len(mustMounts(t, target)) != 0 {
		t.Fatal("it is still mounted")
	}
	if _, err := os.Stat(filepath.Join(dir, "new", "deep")); err != nil {
		t.Fatalf("the volume's directory: %v", err)
	}
	h.awaitNone(t)
}

// TestOneAfterTheOther: a helper that has answered doesn't keep the next job of its volume from being done.
func TestOneAfterTheOther(t *testing.T) {
	h, dir := New(Config{Grace: time.Minute}), t.TempDir()
	for range 3 * MaxHelpers {
		if _, err := h.Do(t.Context(), "one after the other", Job{Look: dir}); err != nil {
			t.Fatal(err)
		}
		if pids := h.left("one after the other"); len(pids) > 0 {
			t.Fatalf("%v still run", pids)
		}
	}
}
