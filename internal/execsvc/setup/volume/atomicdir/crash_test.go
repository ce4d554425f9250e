package atomicdir

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/execsvc/setup/volume/payload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dieAfter runs a Write that is killed after this many steps. It reports whether it was killed.
func dieAfter(steps int, dir string, files map[string]payload.File) (died bool, err error) {
	died = true
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err = write(dir, files, nil, func() {
			if steps--; steps == 0 {
				runtime.Goexit()
			}
		})
		died = false
	}()
	<-done
	return died, err
}

// seen returns the content that a container sees, nil if there is none.
func seen(dir string) (map[string]string, error) {
	content, err := os.Readlink(filepath.Join(dir, dataLink))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return below(filepath.Join(dir, content))
}

// TestDeathAtEachStep: after a kill at any step, the whole old or the whole new content is visible, and never
// the old one after the new one. The next Write, of the same content or another one, removes everything that
// the kill left.
func TestDeathAtEachStep(t *testing.T) {
	third := text("a", "third", "z", "")
	for name, c := range map[string]struct{ old, new map[string]payload.File }{
		"first":                 {nil, text("a", "1", "sub/b", "2")},
		"other data":            {text("a", "1", "sub/b", "2"), text("a", "one", "sub/b", "two")},
		"other names":           {text("a", "1", "b/x", "2", "c", "3"), text("d", "1", "b/y", "2")},
		"files and directories": {text("a", "1", "b/x", "2"), text("a/x", "1", "b", "2")},
		"to nothing":            {text("a", "1", "b/x/y/z", "2"), text()},
	} {
		t.Run(name, func(t *testing.T) {
			swapped := false
			for steps := 1; ; steps++ {
				dir := t.TempDir()
				if c.old != nil {
					mustWrite(t, dir, c.old, nil, true)
				}
				died, err := dieAfter(steps, dir, c.new)
				if err != nil {
					t.Fatal(err)
				}
				got, err := seen(dir)
				if err != nil {
					t.Fatal(err)
				}
				if isNew := got != nil && maps.Equal(got, texts(c.new)); isNew {
					swapped = true
				} else if swapped || (got == nil) != (c.old == nil) || !maps.Equal(got, texts(c.old)) {
					t.Fatalf("dead after step %d, the content is %v (the new one was seen: %v)", steps, got, swapped)
				}
				if written, err := Finish(dir); err != nil || written != (got != nil) {
					t.Fatalf("dead after step %d, with the content %v: finished %v, %v", steps, got, written, err)
				}
				if last := c.old; got != nil {
					if swapped {
						last = c.new
					}
					checkContent(t, dir, last)
				}
				next := c.new
				if steps%2 == 0 {
					next = third
				}
				if _, err := Write(dir, next, nil); err != nil {
					t.Fatalf("after a death at step %d: %v", steps, err)
				}
				checkContent(t, dir, next)
				if !died {
					if steps < 5 || !swapped {
						t.Fatalf("a Write has %d steps", steps)
					}
					return
				}
			}
		})
	}
}

// TestManyDeaths: after any number of Writes, most of them killed, the visible content is always that of one Write,
// none before the last completed one, and the next complete Write leaves nothing of them.
func TestManyDeaths(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "atomicdir")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		// possible are the contents that may be visible, oldest first. nil means none.
		possible := []map[string]string{nil}
		for i := range rapid.IntRange(1, 8).Draw(t, "writes") {
			files := drawFiles(t, i)
			died, err := dieAfter(rapid.IntRange(1, 60).Draw(t, "steps"), dir, files)
			if err != nil {
				t.Fatal(err)
			}
			if !died {
				checkContent(t, dir, files)
				possible = nil
			}
			possible = append(possible, texts(files))
			got, err := seen(dir)
			if err != nil {
				t.Fatal(err)
			}
			at := slices.IndexFunc(possible, func(p map[string]string) bool { return (p == nil) == (got == nil) && maps.Equal(p, got) })
			if at < 0 {
				t.Fatalf("the content is %v, want one of %v", got, possible)
			}
			possible = possible[at:]
		}
	})
}

func drawFiles(t *rapid.T, round int) map[string]payload.File {
	files := map[string]payload.File{}
	for _, path := range [][]string{{"a", "a/x"}, {"b", "b/x/y"}, {"c"}, {"d/1"}, {"d/2"}} {
		if rapid.Bool().Draw(t, "has") {
			files[rapid.SampledFrom(path).Draw(t, "path")] = payload.File{Data: fmt.Appendf(nil, "round %d", round), Mode: 0o644}
		}
	}
	return files
}

// TestReaderSeesWholeContent: a reader that resolves ..data and reads all files, while they are replaced
// repeatedly, finds all files of one content. If that content is removed meanwhile, ..data leads to another
// one.
func TestReaderSeesWholeContent(t *testing.T) {
	const contents = 300
	of := func(i int) map[string]payload.File {
		files := map[string]payload.File{}
		for _, path := range []string{"a", "b/c", "b/d", fmt.Sprintf("own-%d", i%3)} {
			files[path] = payload.File{Data: fmt.Append(nil, i), Mode: 0o644}
		}
		return files
	}
	dir := t.TempDir()
	mustWrite(t, dir, of(0), nil, true)
	written := make(chan error, 1)
	go func() {
		for i := range contents {
			if _, err := Write(dir, of(i+1), nil); err != nil {
				written <- err
				return
			}
		}
		written <- nil
	}()
	last, whole := 0, 0
	for {
		select {
		case err := <-written:
			if err != nil {
				t.Error(err)
			}
			if whole == 0 {
				t.Error("no content could be read as a whole")
			}
			checkContent(t, dir, of(contents))
			return
		default:
		}
		link, err := os.Readlink(filepath.Join(dir, dataLink))
		if err != nil {
			t.Error(err)
			continue
		}
		got, err := below(filepath.Join(dir, link))
		if again, _ := os.Readlink(filepath.Join(dir, dataLink)); again != link {
			continue
		}
		if err != nil {
			t.Errorf("..data led to %s all the time, but: %v", link, err)
			continue
		}
		whole++
		var i int
		if _, err := fmt.Sscan(got["a"], &i); err != nil || i < last || !maps.Equal(got, texts(of(i))) {
			t.Errorf("after content %d a reader sees %v", last, got)
		}
		last = i
	}
}
