package ownership

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/roottest"
)

const group = 4321

// must fails the test on the first error.
func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// file creates a file with exactly that mode.
func file(t *testing.T, path string, mode uint32) {
	t.Helper()
	must(t, os.WriteFile(path, []byte("x"), 0o600), unix.Chmod(path, mode))
}

func dir(t *testing.T, path string, mode uint32) {
	t.Helper()
	must(t, os.Mkdir(path, 0o700), unix.Chmod(path, mode))
}

// check checks the group and mode of a path, or of the link itself.
func check(t *testing.T, path string, gid int, mode uint32) {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Lstat(path, &st))
	if int(st.Gid) != gid || st.Mode&permissions != mode {
		t.Errorf("%s has group %d and mode %o, want %d and %o", path, st.Gid, st.Mode&permissions, gid, mode)
	}
}

// volumeAndOutside creates a volume, and beside it a directory with a file that must not change.
func volumeAndOutside(t *testing.T) (root, outside string) {
	t.Helper()
	base := t.TempDir()
	root, outside = filepath.Join(base, "volume"), filepath.Join(base, "outside")
	dir(t, root, 0o755)
	dir(t, outside, 0o700)
	file(t, filepath.Join(outside, "precious"), 0o600)
	return root, outside
}

// checkOutside checks that the files outside of the volume are unchanged.
func checkOutside(t *testing.T, outside string) {
	t.Helper()
	check(t, outside, 0, 0o700)
	check(t, filepath.Join(outside, "precious"), 0, 0o600)
}

func TestMode(t *testing.T) {
	for _, c := range []struct {
		mode          uint32
		dir, readOnly bool
		want          uint32
	}{
		{mode: 0o600, want: 0o660},
		{mode: 0o700, want: 0o760},
		{mode: 0o4755, want: 0o4775},
		{mode: 0o400, readOnly: true, want: 0o440},
		{mode: 0, want: 0o660},
		{mode: 0o755, dir: true, want: 0o2775},
		{mode: 0o1777, dir: true, want: 0o3777},
		{mode: 0o755, dir: true, readOnly: true, want: 0o2755},
		{mode: 0, dir: true, readOnly: true, want: 0o2550},
	} {
		if got := Mode(c.mode, c.dir, c.readOnly); got != c.want {
			t.Errorf("%o (directory: %v, read-only: %v) becomes %o, want %o", c.mode, c.dir, c.readOnly, got, c.want)
		}
	}
}

func TestSet(t *testing.T) {
	roottest.Need(t, "chown")
	root, outside := volumeAndOutside(t)
	dir(t, filepath.Join(root, "sub"), 0o700)
	file(t, filepath.Join(root, "sub/file"), 0o604)
	file(t, filepath.Join(root, "sub/program"), 0o4711)
	must(t,
		unix.Mkfifo(filepath.Join(root, "pipe"), 0o600), unix.Chmod(filepath.Join(root, "pipe"), 0o600),
		os.Symlink(outside, filepath.Join(root, "todir")),
		os.Symlink(filepath.Join(outside, "precious"), filepath.Join(root, "sub/tofile")),
		os.Symlink("nowhere", filepath.Join(root, "broken")),
	)
	// More than one read of a directory returns.
	for i := range 2*batch + 1 {
		file(t, filepath.Join(root, fmt.Sprint("many", i)), 0o600)
	}
	for range 2 {
		must(t, Set(t.Context(), Request{Dir: root, Group: group}))
		check(t, root, group, 0o2775)
		check(t, filepath.Join(root, "sub"), group, 0o2770)
		check(t, filepath.Join(root, "sub/file"), group, 0o664)
		check(t, filepath.Join(root, "sub/program"), group, 0o4771)
		check(t, filepath.Join(root, "pipe"), group, 0o660)
		for i := range 2*batch + 1 {
			check(t, filepath.Join(root, fmt.Sprint("many", i)), group, 0o660)
		}
		for _, link := range []string{"todir", "sub/tofile", "broken"} {
			check(t, filepath.Join(root, link), group, 0o777)
		}
		checkOutside(t, outside)
	}
}

func TestSetReadOnly(t *testing.T) {
	roottest.Need(t, "chown")
	root := t.TempDir()
	must(t, unix.Chmod(root, 0o700))
	file(t, filepath.Join(root, "file"), 0o200)
	must(t, Set(t.Context(), Request{Dir: root, Group: group, ReadOnly: true}))
	check(t, root, group, 0o2750)
	check(t, filepath.Join(root, "file"), group, 0o640)
}

func TestSetRefusesALink(t *testing.T) {
	roottest.Need(t, "chown")
	base := t.TempDir()
	dir(t, filepath.Join(base, "real"), 0o700)
	must(t, os.Symlink("real", filepath.Join(base, "link")))
	if err := Set(t.Context(), Request{Dir: filepath.Join(base, "link"), Group: group}); err == nil {
		t.Error("a link in place of the volume is let through")
	}
	check(t, filepath.Join(base, "real"), 0, 0o700)
	if err := Set(t.Context(), Request{Dir: filepath.Join(base, "nothing"), Group: group}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a volume: error %v, want that it doesn't exist", err)
	}
}

// TestPolicy: OnRootMismatch checks only the volume's own directory, and Always checks everything.
func TestPolicy(t *testing.T) {
	roottest.Need(t, "chown")
	for name, c := range map[string]struct {
		policy    v1.PodFSGroupChangePolicy
		gid       int
		mode      uint32
		untouched bool
	}{
		"always":                         {policy: v1.FSGroupChangeAlways, gid: group, mode: 0o2775},
		"not said":                       {gid: group, mode: 0o2775},
		"root is right":                  {policy: v1.FSGroupChangeOnRootMismatch, gid: group, mode: 0o2775, untouched: true},
		"root has more":                  {policy: v1.FSGroupChangeOnRootMismatch, gid: group, mode: 0o3777, untouched: true},
		"root is of another group":       {policy: v1.FSGroupChangeOnRootMismatch, mode: 0o2775},
		"root doesn't hand on its group": {policy: v1.FSGroupChangeOnRootMismatch, gid: group, mode: 0o775},
		"root isn't writable":            {policy: v1.FSGroupChangeOnRootMismatch, gid: group, mode: 0o2755},
	} {
		t.Run(name, func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "volume")
			dir(t, root, 0o700)
			must(t, os.Chown(root, -1, c.gid), unix.Chmod(root, c.mode))
			inner := filepath.Join(root, "file")
			file(t, inner, 0o600)
			must(t, os.Chown(inner, -1, 0), Set(t.Context(), Request{Dir: root, Group: group, Policy: c.policy}))
			if c.untouched {
				check(t, inner, 0, 0o600)
				return
			}
			check(t, inner, group, 0o660)
			check(t, root, group, c.mode|0o2770)
		})
	}
}

// ending is a context that ends after a number of calls to Err.
type ending struct {
	context.Context
	left int
}

func (e *ending) Err() error {
	if e.left--; e.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestInterrupted: after an interruption anywhere, the next call with OnRootMismatch does the rest.
func TestInterrupted(t *testing.T) {
	roottest.Need(t, "chown")
	for steps := range 6 {
		root := filepath.Join(t.TempDir(), "volume")
		dir(t, root, 0o755)
		dir(t, filepath.Join(root, "sub"), 0o755)
		for _, name := range []string{"a", "b", "sub/a", "sub/b"} {
			file(t, filepath.Join(root, name), 0o600)
		}
		r := Request{Dir: root, Group: group, Policy: v1.FSGroupChangeOnRootMismatch}
		err := Set(&ending{Context: t.Context(), left: steps}, r)
		// The walk reaches five names.
		if steps < 5 != errors.Is(err, context.Canceled) {
			t.Errorf("ended after %d steps: error %v", steps, err)
		}
		must(t, Set(t.Context(), r))
		for _, name := range []string{"a", "b", "sub/a", "sub/b"} {
			check(t, filepath.Join(root, name), group, 0o660)
		}
	}
}

// TestMountInside: a mount in the volume, also of the same file system, is not part of it.
func TestMountInside(t *testing.T) {
	roottest.Need(t, "chown")
	root, outside := volumeAndOutside(t)
	inner := filepath.Join(root, "inner")
	dir(t, inner, 0o755)
	must(t, unix.Mount(outside, inner, "", unix.MS_BIND, ""))
	defer func() { must(t, unix.Unmount(inner, unix.MNT_DETACH)) }()
	must(t, Set(t.Context(), Request{Dir: root, Group: group}))
	check(t, root, group, 0o2775)
	checkOutside(t, outside)
}

// TestSwapped: a container that repeatedly replaces a directory by a link changes nothing outside of the volume.
func TestSwapped(t *testing.T) {
	roottest.Need(t, "chown")
	root, outside := volumeAndOutside(t)
	dir(t, filepath.Join(root, "sub"), 0o755)
	file(t, filepath.Join(root, "sub/precious"), 0o600)
	must(t, os.Symlink(outside, filepath.Join(root, "link")))

	done, swaps := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		defer func() { swaps <- n }()
		for {
			select {
			case <-done:
				return
			default:
			}
			if unix.Renameat2(unix.AT_FDCWD, root+"/sub", unix.AT_FDCWD, root+"/link", unix.RENAME_EXCHANGE) == nil {
				n++
			}
		}
	}()
	for i := range 2000 {
		if err := Set(t.Context(), Request{Dir: root, Group: int64(group + i%2)}); err != nil {
			t.Errorf("while names are swapped: %v", err)
			break
		}
	}
	close(done)
	if n := <-swaps; n == 0 {
		t.Error("nothing was swapped")
	}
	checkOutside(t, outside)
}

func TestTooDeep(t *testing.T) {
	roottest.Need(t, "chown")
	root := filepath.Join(t.TempDir(), "volume")
	dir(t, root, 0o755)
	at, err := unix.Open(root, unix.O_DIRECTORY|unix.O_RDONLY, 0)
	must(t, err)
	for range maxDepth {
		must(t, unix.Mkdirat(at, "d", 0o700))
		next, err := unix.Openat(at, "d", unix.O_DIRECTORY|unix.O_RDONLY, 0)
		must(t, err, unix.Close(at))
		at = next
	}
	must(t, unix.Close(at))
	err = Set(t.Context(), Request{Dir: root, Group: group})
	if !errors.Is(err, ErrTooDeep) || !strings.HasPrefix(err.Error(), "change the volume") {
		t.Errorf("error %.200v, want ErrTooDeep", err)
	}
}
