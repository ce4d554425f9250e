package subpath

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/openfile"
	"github.com/podstream/podstream/internal/roottest"
)

// newTargets returns the volume-subpaths of a pod, with a space in its path. It is cleaned up at the end of the test.
func newTargets(t *testing.T) string {
	t.Helper()
	roottest.Need(t, "mounting")
	dir := filepath.Join(t.TempDir(), "root dir", "u1", targetsName)
	t.Cleanup(func() {
		if err := CleanUp(dir, nil); err != nil {
			t.Errorf("clean up: %v", err)
		}
		gone(t, dir)
	})
	return dir
}

func targetOf(dir, container string) string { return filepath.Join(dir, "data", container, "0") }

// mountTmpfs mounts a tmpfs until the test ends.
func mountTmpfs(t *testing.T, path string, flags uintptr) {
	t.Helper()
	must(t, os.MkdirAll(path, 0o755))
	must(t, unix.Mount("tmpfs", path, "tmpfs", flags, ""))
	t.Cleanup(func() {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			t.Errorf("unmount %s: %v", path, err)
		}
	})
}

func gone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there (%v)", path, err)
	}
}

func stat(t *testing.T, path string) unix.Stat_t {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatalf("stat %s: %v", path, err)
	}
	return st
}

// same checks that target is a mount of the file at path.
func same(t *testing.T, target, path string) {
	t.Helper()
	got, want := stat(t, target), stat(t, path)
	if got.Ino != want.Ino || got.Dev != want.Dev || got.Mode != want.Mode {
		t.Errorf("%s isn't %s", target, path)
	}
	if mountOf(t, target) == mountOf(t, filepath.Dir(target)) {
		t.Errorf("nothing is mounted at %s", target)
	}
}

func mountOf(t *testing.T, path string) string {
	t.Helper()
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	id, err := openfile.Mount(fd)
	must(t, err)
	return id
}

func prepare(t *testing.T, req Request) {
	t.Helper()
	host, err := Prepare(t.Context(), req)
	if err != nil {
		t.Fatalf("subpath %q: %v", req.SubPath, err)
	}
	if host != req.Target {
		t.Errorf("subpath %q is at %s, want the target %s", req.SubPath, host, req.Target)
	}
}

func TestPrepare(t *testing.T) {
	onEachKernel(t, func(t *testing.T) {
		dir := newTargets(t)
		given, resolved, _ := volume(t)
		must(t, unix.Mkfifo(filepath.Join(resolved, "fifo"), 0o666))
		must(t, unix.Mknod(filepath.Join(resolved, "null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
		l, err := net.Listen("unix", filepath.Join(resolved, "socket"))
		must(t, err)
		defer l.Close()
		i := 0
		for sub, path := range map[string]string{
			"file": "file", "dir": "dir", "./dir/": "dir", "dir//file": "dir/file", "tofile": "dir/file", "todir": "dir", "dir/up": "file",
			"absolute/file": "dir/file", "asgiven": "dir", "outandback": "file", "farandback": "dir",
			"fifo": "fifo", "null": "null", "socket": "socket", ".": ".", "": ".",
		} {
			i++
			target := targetOf(dir, fmt.Sprintf("c%d", i))
			prepare(t, Request{Root: given, SubPath: sub, Target: target})
			same(t, target, filepath.Join(resolved, path))
		}
	})
}

func TestPrepareRefuses(t *testing.T) {
	onEachKernel(t, func(t *testing.T) {
		dir := newTargets(t)
		given, resolved, outside := volume(t)
		must(t, unix.Mkfifo(filepath.Join(resolved, "fifo"), 0o666))
		for sub, want := range map[string]string{
			"../x": `must not contain ".."`, "a/../../b": `must not contain ".."`, "..": `must not contain ".."`,
			"dir/..": `must not contain ".."`, "/abs": "must not be an absolute path", "/": "must not be an absolute path",
			"a\x00b": "must not contain NUL",
			"out":    "not within volume path", "outdir/file": "not within volume path", "outdir/new": "not within volume path",
			"parent": "not within volume path", "slash/etc": "not within volume path", "outtonothing": "not within volume path",
			"outtonothing/new": "not within volume path", "hidden": "not within volume path",
			"loop": unix.ELOOP.Error(), "itself/x": unix.ELOOP.Error(), "file/new": unix.ENOTDIR.Error(), "fifo/new": unix.ENOTDIR.Error(),
			"nowhere": unix.ENOENT.Error(), "nowhere/x": unix.ENOENT.Error(),
			strings.Repeat("d/", 5000): unix.ENAMETOOLONG.Error(), strings.Repeat("n", 300): unix.ENAMETOOLONG.Error(),
		} {
			_, err := Prepare(t.Context(), Request{Root: given, SubPath: sub, Target: targetOf(dir, "c")})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("subpath %.40q: error %v, want one with %q", sub, err, want)
			}
		}
		gone(t, dir)
		gone(t, filepath.Join(outside, "new"))
		gone(t, filepath.Join(resolved, "missing"))

		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Prepare(ended, Request{Root: given, SubPath: "dir", Target: targetOf(dir, "c")}); !errors.Is(err, context.Canceled) {
			t.Errorf("after the context's end: %v", err)
		}
	})
}

func TestPrepareMakesWhatIsMissing(t *testing.T) {
	onEachKernel(t, func(t *testing.T) {
		dir := newTargets(t)
		given, resolved, _ := volume(t)
		defer unix.Umask(unix.Umask(0o077))
		must(t, os.Chown(resolved, -1, 4321))
		must(t, unix.Chmod(resolved, 0o2770))
		links(t, resolved, map[string]string{"totop": filepath.Join(resolved, ".")})
		prepare(t, Request{Root: given, SubPath: "totop/new/deep", Target: targetOf(dir, "c")})
		same(t, targetOf(dir, "c"), filepath.Join(resolved, "new/deep"))
		for _, made := range []string{"new", "new/deep"} {
			if st := stat(t, filepath.Join(resolved, made)); st.Mode != unix.S_IFDIR|0o2770 || st.Gid != 4321 {
				t.Errorf("%s has mode %o and group %d, want those of the volume", made, st.Mode, st.Gid)
			}
		}
		// An existing file keeps its mode.
		must(t, unix.Chmod(filepath.Join(resolved, "new"), 0o700))
		prepare(t, Request{Root: given, SubPath: "new/other", Target: targetOf(dir, "c2")})
		if st := stat(t, filepath.Join(resolved, "new")); st.Mode != unix.S_IFDIR|0o700 {
			t.Errorf("the existing file now has mode %o", st.Mode)
		}
		deep := strings.Repeat("d/", 1000)
		prepare(t, Request{Root: given, SubPath: deep, Target: targetOf(dir, "c3")})
		same(t, targetOf(dir, "c3"), filepath.Join(resolved, deep))
	})
}

func TestPrepareOnAReadOnlyVolume(t *testing.T) {
	dir := newTargets(t)
	root := filepath.Join(t.TempDir(), "vol")
	mountTmpfs(t, root, 0)
	write(t, filepath.Join(root, "dir", "file"), "x")
	must(t, unix.Mount("", root, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	for i, sub := range []string{"dir", "dir/file"} {
		target := targetOf(dir, fmt.Sprint(i))
		for range 2 {
			prepare(t, Request{Root: root, SubPath: sub, Target: target})
		}
		same(t, target, filepath.Join(root, sub))
	}
	if _, err := Prepare(t.Context(), Request{Root: root, SubPath: "new", Target: targetOf(dir, "c")}); !errors.Is(err, unix.EROFS) {
		t.Errorf("a path that can't be created: error %v, want EROFS", err)
	}
}

func TestPrepareReadOnly(t *testing.T) {
	dir := newTargets(t)
	root := filepath.Join(t.TempDir(), "vol")
	mountTmpfs(t, root, unix.MS_NOSUID|unix.MS_NOEXEC)
	write(t, filepath.Join(root, "dir", "file"), "x")
	target := targetOf(dir, "c")
	for _, readOnly := range []bool{true, false, true} {
		prepare(t, Request{Root: root, SubPath: "dir", ReadOnly: readOnly, Target: target})
		id := mountOf(t, target)
		prepare(t, Request{Root: root, SubPath: "dir", ReadOnly: readOnly, Target: target})
		if again := mountOf(t, target); again != id {
			t.Errorf("read-only %v: mounted again", readOnly)
		}
		err := os.WriteFile(filepath.Join(target, "file"), []byte("y"), 0o644)
		if readOnly != errors.Is(err, unix.EROFS) || !readOnly && err != nil {
			t.Errorf("read-only %v: a write returns %v", readOnly, err)
		}
		var fs unix.Statfs_t
		must(t, unix.Statfs(target, &fs))
		if fs.Flags&unix.MS_NOSUID == 0 || fs.Flags&unix.MS_NOEXEC == 0 {
			t.Errorf("read-only %v: the volume's options are lost", readOnly)
		}
	}
	must(t, os.WriteFile(filepath.Join(root, "dir", "file"), []byte("z"), 0o644)) // the volume itself is unchanged
}
