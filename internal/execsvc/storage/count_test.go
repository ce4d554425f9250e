package storage

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func count(t *testing.T, dir string) (int64, error) {
	t.Helper()
	return (&counter{ctx: t.Context(), left: 10_000}).tree(dir)
}

func wantCount(t *testing.T, dir string, want int64) {
	t.Helper()
	if got, err := count(t, dir); got != want || err != nil {
		t.Errorf("%d, %v; want %d", got, err, want)
	}
}

// What counts is what is taken of the disk, by directories too.
func TestTree(t *testing.T) {
	dir := t.TempDir()
	write(t, 100, dir, "small")
	write(t, 3*mi, dir, "a/b/large")
	for i := range 2 * batch {
		write(t, 1, dir, "many", strconv.Itoa(i))
	}
	if err := os.Truncate(write(t, 0, dir, "sparse"), 1<<30); err != nil {
		t.Fatal(err)
	}
	want := taken(t, dir)
	if want < 3*mi || want > 100*mi {
		t.Fatalf("the files take %d", want)
	}
	wantCount(t, dir, want)
}

func TestTreeCountsNamesOfOneFileOnce(t *testing.T) {
	dir := t.TempDir()
	file := write(t, mi, dir, "a/file")
	for _, name := range []string{"a/again", "b"} {
		if err := os.Link(file, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	wantCount(t, dir, taken(t, dir)-2*taken(t, file))
}

func TestTreeFollowsNoLinks(t *testing.T) {
	outside := t.TempDir()
	write(t, 2*mi, outside, "file")
	dir := t.TempDir()
	for name, target := range map[string]string{"dir": outside, "file": filepath.Join(outside, "file"), "loop": ".", "nowhere": "x/y"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	wantCount(t, dir, taken(t, dir))
	if got, err := count(t, filepath.Join(dir, "dir")); got != 0 || !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP) {
		t.Errorf("a link in place of the directory: %d, %v; want it refused", got, err)
	}
}

func TestTreeStaysOnItsFileSystem(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("PODSTREAM_REQUIRE_RUNTIME") != "" {
			t.Fatal("mounts need root")
		}
		t.Skip("only root mounts: sudo go test ./internal/execsvc/storage")
	}
	dir := t.TempDir()
	write(t, mi, dir, "file")
	mounted := filepath.Join(dir, "mounted")
	if err := os.Mkdir(mounted, 0o750); err != nil {
		t.Fatal(err)
	}
	want := taken(t, dir) - taken(t, mounted)
	if err := unix.Mount("tmpfs", mounted, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(mounted, 0); err != nil {
			t.Error(err)
		}
	})
	write(t, 2*mi, mounted, "file")
	wantCount(t, dir, want)
}

func TestTreeThatIsNotThere(t *testing.T) { wantCount(t, filepath.Join(t.TempDir(), "none"), 0) }

// What can't be counted to its end is known in part.
func TestTreeIsBounded(t *testing.T) {
	t.Run("files", func(t *testing.T) {
		dir := t.TempDir()
		for i := range 5 {
			write(t, mi, dir, strconv.Itoa(i))
		}
		c := &counter{ctx: t.Context(), left: 3}
		if got, err := c.tree(dir); got < 3*mi || got >= 4*mi || !errors.Is(err, errTooMany) {
			t.Errorf("%d, %v; want three files", got, err)
		}
		if got, err := c.tree(dir); got >= mi || !errors.Is(err, errTooMany) {
			t.Errorf("then %d, %v; want none", got, err)
		}
	})
	t.Run("depth", func(t *testing.T) {
		dir := t.TempDir()
		write(t, mi, dir, strings.Repeat("d/", maxDepth), "file")
		write(t, mi, dir, "z")
		if got, err := count(t, dir); got < mi || got >= 2*mi || !errors.Is(err, errTooDeep) {
			t.Errorf("%d, %v; want all but the deepest file", got, err)
		}
		wantCount(t, filepath.Join(dir, "d"), taken(t, filepath.Join(dir, "d")))
	})
	t.Run("time", func(t *testing.T) {
		late := errors.New("late")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(late)
		if _, err := (&counter{ctx: ctx, left: 10}).tree(t.TempDir()); !errors.Is(err, late) {
			t.Errorf("%v; want %v", err, late)
		}
	})
}

// A container that swaps directories and links meanwhile leads the count nowhere, and doesn't make it fail.
func TestTreeThatChanges(t *testing.T) {
	outside := t.TempDir()
	write(t, 64*mi, outside, "sub/file")
	dir := t.TempDir()
	write(t, 1, dir, "d/sub/file")
	if err := os.Symlink(outside, filepath.Join(dir, "l")); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := unix.Renameat2(unix.AT_FDCWD, filepath.Join(dir, "d"), unix.AT_FDCWD, filepath.Join(dir, "l"), unix.RENAME_EXCHANGE); err != nil {
				t.Error(err)
				return
			}
			gone := filepath.Join(dir, "gone")
			if err := errors.Join(os.WriteFile(gone, nil, 0o600), os.Remove(gone)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 2000 {
		if got, err := count(t, dir); got >= mi || err != nil {
			t.Errorf("%d, %v", got, err)
			break
		}
	}
	close(stop)
	swapping.Wait()
}
