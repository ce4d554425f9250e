package subpath

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// enoughSwaps is the number of exchanges while subPaths are prepared.
const enoughSwaps = 10000

// swap exchanges the two paths until the test ends, and counts.
func swap(t *testing.T, a, b string) *atomic.Int64 {
	t.Helper()
	return repeat(t, func() error { return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE) })
}

// repeat calls do until the test ends, and counts.
func repeat(t *testing.T, do func() error) *atomic.Int64 {
	t.Helper()
	var done atomic.Bool
	var count atomic.Int64
	var running sync.WaitGroup
	running.Go(func() {
		for !done.Load() {
			if err := do(); err != nil {
				t.Error(err)
				return
			}
			count.Add(1)
		}
	})
	t.Cleanup(func() { done.Store(true); running.Wait() })
	return &count
}

// hostile returns a volume in which "a" is, alternately, a directory and a link to one outside.
func hostile(t *testing.T) (root, outside string, swaps *atomic.Int64) {
	t.Helper()
	base := t.TempDir()
	root, outside = filepath.Join(base, "vol"), filepath.Join(base, "outside")
	for _, dir := range []string{filepath.Join(root, "a"), outside} {
		write(t, filepath.Join(dir, "x", "file"), dir)
	}
	links(t, root, map[string]string{"evil": outside})
	return root, outside, swap(t, filepath.Join(root, "a"), filepath.Join(root, "evil"))
}

func TestAttackOnOpen(t *testing.T) {
	onEachKernel(t, func(t *testing.T) {
		root, outside, swaps := hostile(t)
		r, err := openRoot(root)
		must(t, err)
		defer r.close()
		bad := map[uint64]string{}
		for _, path := range []string{"", "x", "x/file"} {
			bad[stat(t, filepath.Join(outside, path)).Ino] = path
		}
		opened, refused := 0, 0
		for i := 0; swaps.Load() < enoughSwaps || opened < 100 || refused < 100; i++ {
			if t.Failed() {
				return
			}
			names := [][]string{{"a"}, {"a", "x"}, {"a", "x", "file"}, {"a", "new", fmt.Sprint(i % 50)}, {"evil", "x"}}[i%5]
			fd, err := r.open(names, true)
			if err != nil {
				refused++
				continue
			}
			opened++
			var st unix.Stat_t
			must(t, unix.Fstat(fd, &st))
			must(t, unix.Close(fd))
			if path, is := bad[st.Ino]; is {
				t.Fatalf("%v opens %q outside of the volume", names, path)
			}
		}
		gone(t, filepath.Join(outside, "new"))
	})
}

func TestAttackOnPrepare(t *testing.T) {
	onEachKernel(t, func(t *testing.T) {
		dir := newTargets(t)
		root, outside, swaps := hostile(t)
		target, x := targetOf(dir, "c"), stat(t, filepath.Join(outside, "x"))
		bound, refused := 0, 0
		for i := 0; swaps.Load() < enoughSwaps || bound < 20 || refused < 20; i++ {
			if t.Failed() {
				return
			}
			_, err := Prepare(t.Context(), Request{Root: root, SubPath: "a/x", Target: target})
			if err != nil {
				refused++
				continue
			}
			bound++
			if got := stat(t, target); got.Ino == x.Ino {
				t.Fatal("a directory outside of the volume is bound")
			}
			if text, err := os.ReadFile(filepath.Join(target, "file")); err != nil || string(text) != filepath.Join(root, "a") {
				t.Fatalf("the bound file has %q (%v)", text, err)
			}
			if i%2 == 0 {
				must(t, CleanUp(dir, nil))
			}
		}
	})
}

// An existing file, in a directory that is replaced like a configMap's, is never reported missing.
func TestOpenWhileAConfigMapChanges(t *testing.T) {
	onEachKernel(t, func(t *testing.T) {
		root := t.TempDir()
		write(t, filepath.Join(root, "..v0", "sub", "key"), "x")
		links(t, root, map[string]string{"..data": "..v0", "sub": "..data/sub"})
		version := 0
		changes := repeat(t, func() error {
			former := filepath.Join(root, fmt.Sprintf("..v%d", version))
			version++
			current := fmt.Sprintf("..v%d", version)
			return errors.Join(
				os.MkdirAll(filepath.Join(root, current, "sub"), 0o755),
				os.WriteFile(filepath.Join(root, current, "sub", "key"), []byte("x"), 0o644),
				os.Symlink(current, filepath.Join(root, "..next")),
				os.Rename(filepath.Join(root, "..next"), filepath.Join(root, "..data")),
				os.RemoveAll(former))
		})
		r, err := openRoot(root)
		must(t, err)
		defer r.close()
		for changes.Load() < 300 && !t.Failed() {
			fd, err := r.open([]string{"sub", "key"}, true)
			if err != nil {
				continue // it changed too often
			}
			var st unix.Stat_t
			must(t, unix.Fstat(fd, &st))
			must(t, unix.Close(fd))
			if st.Mode&unix.S_IFMT != unix.S_IFREG {
				t.Fatal("a directory was made in place of the file")
			}
		}
	})
}
