package subpath

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	"k8s.io/mount-utils"
)

func TestCleanUpOfAContainer(t *testing.T) {
	dir := newTargets(t)
	given, resolved, _ := volume(t)
	for _, container := range []string{"a", "b"} {
		prepare(t, Request{Root: given, SubPath: "dir", Target: targetOf(dir, container)})
	}
	for range 2 {
		must(t, CleanUp(filepath.Join(dir, "data", "a"), nil))
	}
	gone(t, filepath.Join(dir, "data", "a"))
	same(t, targetOf(dir, "b"), filepath.Join(resolved, "dir"))
}

func TestCleanUpOfNothing(t *testing.T) {
	for _, path := range []string{"missing", "missing/too"} {
		if err := CleanUp(filepath.Join(t.TempDir(), path), nil); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A mount within a volume on the node is visible in the target too. Removing the target must not unmount it in
// the volume.
func TestCleanUpLeavesMountsInTheVolume(t *testing.T) {
	dir := newTargets(t)
	root := filepath.Join(t.TempDir(), "vol")
	mountTmpfs(t, root, 0)
	must(t, unix.Mount("", root, "", unix.MS_SHARED, ""))
	target := targetOf(dir, "c")
	prepare(t, Request{Root: root, SubPath: "dir", Target: target})
	inner := filepath.Join(root, "dir", "inner")
	mountTmpfs(t, inner, 0)
	write(t, filepath.Join(inner, "precious"), "x")
	same(t, filepath.Join(target, "inner"), inner)

	must(t, CleanUp(dir, nil))
	gone(t, dir)
	if mountOf(t, inner) == mountOf(t, root) {
		t.Error("the mount in the volume is unmounted")
	}
	if _, err := os.Stat(filepath.Join(inner, "precious")); err != nil {
		t.Error(err)
	}
}

func TestCleanUpWhileInUse(t *testing.T) {
	dir := newTargets(t)
	given, resolved, _ := volume(t)
	target := targetOf(dir, "c")
	prepare(t, Request{Root: given, SubPath: "dir", Target: target})
	held, err := os.Open(target)
	must(t, err)
	defer held.Close()
	must(t, CleanUp(dir, nil))
	gone(t, dir)
	if _, err := os.Stat(filepath.Join(resolved, "dir", "file")); err != nil {
		t.Errorf("the volume has lost a file: %v", err)
	}
}

// liar skips unmounts and reports success.
type liar struct{ mount.Interface }

func (liar) Unmount(string) error { return nil }

func TestCleanUpNeverDeletesThroughAMount(t *testing.T) {
	for _, sub := range []string{"dir", "file"} {
		dir := newTargets(t)
		given, resolved, _ := volume(t)
		prepare(t, Request{Root: given, SubPath: sub, Target: targetOf(dir, "c")})
		if err := CleanUp(dir, liar{}); !errors.Is(err, ErrMounted) {
			t.Errorf("%s: error %v, want ErrMounted", sub, err)
		}
		for _, file := range []string{"file", "dir/file"} {
			if text, err := os.ReadFile(filepath.Join(resolved, file)); err != nil || string(text) != "inside" {
				t.Errorf("%s: the volume's %s is %q (%v)", sub, file, text, err)
			}
		}
		same(t, targetOf(dir, "c"), filepath.Join(resolved, sub))
	}
}

// A target that can't be unmounted doesn't prevent the removal of the others.
func TestCleanUpGoesOn(t *testing.T) {
	dir := newTargets(t)
	given, _, _ := volume(t)
	for _, container := range []string{"a", "b", "c"} {
		prepare(t, Request{Root: given, SubPath: "dir", Target: targetOf(dir, container)})
	}
	if err := CleanUp(dir, choosy{mount.New(""), targetOf(dir, "b")}); !errors.Is(err, ErrMounted) {
		t.Errorf("error %v, want ErrMounted", err)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "data"))
	if err != nil || len(entries) != 1 || entries[0].Name() != "b" {
		t.Errorf("left are %v (%v), want b", entries, err)
	}
}

// choosy skips the unmount of one path, and reports success.
type choosy struct {
	mount.Interface
	not string
}

func (c choosy) Unmount(path string) error {
	if path == c.not {
		return nil
	}
	return c.Interface.Unmount(path)
}

// A mount whose server has ended returns only errors.
func TestDeadMount(t *testing.T) {
	dir := newTargets(t)
	given, resolved, _ := volume(t)
	target := targetOf(dir, "c")
	must(t, os.MkdirAll(target, 0o750))
	fuse, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		if os.Getenv("PODSTREAM_REQUIRE_RUNTIME") != "" {
			t.Fatalf("FUSE isn't available (%v): modprobe fuse", err)
		}
		t.Skipf("FUSE isn't available (%v): modprobe fuse", err)
	}
	err = unix.Mount("dead", target, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fuse))
	must(t, errors.Join(err, unix.Close(fuse)))
	if _, err := os.Stat(target); err == nil {
		t.Fatal("the mount isn't dead")
	}
	prepare(t, Request{Root: given, SubPath: "dir", Target: target})
	same(t, target, filepath.Join(resolved, "dir"))
}

// A mount at the same path that another mount hides isn't one at the target: there is nothing to unmount there.
func TestCleanUpOverAHiddenMount(t *testing.T) {
	dir := newTargets(t)
	above, target := filepath.Dir(dir), targetOf(dir, "c")
	mountTmpfs(t, target, 0)
	write(t, filepath.Join(target, "precious"), "x")
	mountTmpfs(t, above, 0)
	must(t, os.MkdirAll(target, 0o750))
	must(t, CleanUp(dir, nil))
	gone(t, dir)
	must(t, unix.Unmount(above, 0))
	if _, err := os.Stat(filepath.Join(target, "precious")); err != nil {
		t.Error(err)
	}
}
