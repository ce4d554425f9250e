package file

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// slowly is a quiet period that is long enough even if the machine pauses between two steps of an editor.
const slowly = 400 * time.Millisecond

// TestSaving: each way in which editors and tools save a file produces one Set, with the new version.
func TestSaving(t *testing.T) {
	t.Parallel()
	v2 := pod("a", "v2")
	tests := []struct {
		name string
		save func(t *testing.T, dir, path string)
	}{
		{"in place", func(t *testing.T, _, path string) { write(t, path, v2) }},
		{"in place, in pieces", func(t *testing.T, _, path string) {
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
			must(t, err)
			for i := range v2 {
				_, err := f.WriteString(v2[i : i+1])
				must(t, err)
			}
			must(t, f.Close())
		}},
		{"appended by several writers", func(t *testing.T, _, path string) {
			must(t, os.Truncate(path, 0))
			for i := range v2 {
				f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
				must(t, err)
				_, err = f.WriteString(v2[i : i+1])
				must(t, err)
				must(t, f.Close())
			}
		}},
		{"hidden temporary file, renamed", func(t *testing.T, _, path string) { place(t, path, v2) }},
		{"temporary file beside it, renamed", func(t *testing.T, _, path string) {
			write(t, path+".tmp", v2)
			rename(t, path+".tmp", path)
		}},
		{"temporary file elsewhere, renamed", func(t *testing.T, _, path string) {
			temp := filepath.Join(t.TempDir(), "temp")
			write(t, temp, v2)
			rename(t, temp, path)
		}},
		{"moved away, written again, backup removed (vim)", func(t *testing.T, dir, path string) {
			write(t, filepath.Join(dir, "4913"), "")
			must(t, os.Remove(filepath.Join(dir, "4913")))
			rename(t, path, path+"~")
			write(t, path, v2)
			must(t, os.Chmod(path, 0o644))
			must(t, os.Remove(path+"~"))
		}},
		{"moved elsewhere, written again", func(t *testing.T, dir, path string) {
			rename(t, path, filepath.Join(t.TempDir(), "backup"))
			write(t, path, v2)
		}},
		{"removed, written again", func(t *testing.T, _, path string) {
			must(t, os.Remove(path))
			write(t, path, v2)
		}},
		{"removed, linked again", func(t *testing.T, _, path string) {
			temp := filepath.Join(t.TempDir(), "temp")
			write(t, temp, v2)
			must(t, os.Remove(path))
			must(t, os.Link(temp, path))
		}},
		{"copied over with its times", func(t *testing.T, _, path string) {
			write(t, path, v2)
			then := time.Now().Add(-time.Hour)
			must(t, os.Chtimes(path, then, then))
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for _, single := range []bool{false, true} {
				dir := t.TempDir()
				path := filepath.Join(dir, "a.yaml")
				write(t, path, pod("a", "v1"))
				cfg := Config{Path: dir, QuietPeriod: slowly}
				if single {
					cfg.Path = path
				}
				r := run(t, cfg)
				r.expect("a.yaml a=v1")
				began := time.Now()
				test.save(t, dir, path)
				if time.Since(began) > slowly/2 {
					r.await("a.yaml a=v2") // The machine paused for longer: intermediate files may have been read.
					continue
				}
				r.expect("a.yaml a=v2")
			}
		})
	}
}

// TestRenamedInAtOnce: a file that is renamed into place doesn't wait for the quiet period, which is longer
// here than the test waits.
func TestRenamedInAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	leasable(t)
	r := run(t, Config{Path: dir, QuietPeriod: 10 * patience})
	r.expect()
	place(t, filepath.Join(dir, "a.yaml"), pod("a", "v1"))
	r.expect("a.yaml a=v1")
	place(t, filepath.Join(dir, "a.yaml"), pod("a", "v2"))
	r.expect("a.yaml a=v2")

	// From another directory, too, even if the clock of the file system doesn't distinguish the rename from the write.
	temp := filepath.Join(t.TempDir(), "b.yaml")
	for _, version := range []string{"v1", "v2", "v3"} {
		write(t, temp, pod("b", version))
		rename(t, temp, filepath.Join(dir, "b.yaml"))
		r.expect("a.yaml a=v2", "b.yaml b="+version)
	}
}

// TestRenameWithinDirectory: a file that is renamed within the directory is removed and added in one Set.
func TestRenameWithinDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, at("a.yaml"), pod("a", "v1"))
	write(t, at("x.yaml"), pod("x", "v1"))
	r := run(t, Config{Path: dir, QuietPeriod: slowly})
	r.expect("a.yaml a=v1", "x.yaml x=v1")
	rename(t, at("a.yaml"), at("b.yaml"))
	r.expect("b.yaml a=v1", "x.yaml x=v1")
	rename(t, at("b.yaml"), at("x.yaml"))
	r.expect("x.yaml a=v1")
	// Several renames at once, each to a name that the next one frees.
	rename(t, at("x.yaml"), at("y.yaml"))
	rename(t, at("y.yaml"), at("z.yaml"))
	r.await("z.yaml a=v1")
	// A rename to an ignored name, as users disable a manifest.
	rename(t, at("z.yaml"), at("z.yaml.off"))
	r.expect("z.yaml.off ignored")
	rename(t, at("z.yaml.off"), at("z.yaml"))
	r.expect("z.yaml a=v1")
}

// TestRenameUnderAWriter: if the new name must wait for a writer, the old one stays until then.
func TestRenameUnderAWriter(t *testing.T) {
	t.Parallel()
	leasable(t)
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")
	write(t, a, pod("a", "v1"))
	r := run(t, Config{Path: dir})
	r.expect("a.yaml a=v1")
	f, err := os.OpenFile(a, os.O_WRONLY, 0)
	must(t, err)
	defer f.Close()
	rename(t, a, b)
	// Several quiet periods are over.
	write(t, filepath.Join(dir, "c.yaml"), pod("c", "v1"))
	r.expect("a.yaml a=v1", "c.yaml c=v1")
	write(t, filepath.Join(dir, "c.yaml"), pod("c", "v2"))
	r.expect("a.yaml a=v1", "c.yaml c=v2")
	must(t, f.Close())
	r.expect("b.yaml a=v1", "c.yaml c=v2")
}

// TestHalfWritten: a file with a writer isn't read, even after the quiet period, which b.yaml shows to be over.
func TestHalfWritten(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"new", "truncated"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "a.yaml")
			before := []string{}
			if name == "truncated" {
				write(t, path, pod("a", "v1"))
				before = []string{"a.yaml a=v1"}
			}
			leasable(t)
			r := run(t, Config{Path: dir})
			r.expect(before...)

			f, err := os.Create(path)
			must(t, err)
			defer f.Close()
			content := pod("a", "v2")
			// The first half is a valid, but wrong, manifest.
			half := len(content) - len("image: v2\n")
			_, err = io.WriteString(f, content[:half])
			must(t, err)
			for _, b := range []string{"b.yaml", "c.yaml"} {
				write(t, filepath.Join(dir, b), pod("b", "v1"))
				before = append(before, b+" b=v1")
				r.expect(before...)
			}
			_, err = io.WriteString(f, content[half:])
			must(t, err)
			must(t, f.Close())
			r.expect("a.yaml a=v2", "b.yaml b=v1", "c.yaml b=v1")
		})
	}
}

// TestHalfWrittenAtStart: a file that is incomplete at the first listing is held, and the others don't wait for it.
func TestHalfWrittenAtStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	write(t, filepath.Join(dir, "b.yaml"), pod("b", "v1"))
	leasable(t)
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	_, err = io.WriteString(f, "kind: Pod")
	must(t, err)
	r := run(t, Config{Path: dir})
	set := r.expect("a.yaml held", "b.yaml b=v1")
	if got := origin(t, set, "a.yaml").Findings[0].Message; got != errBeingWritten.Error() {
		t.Errorf("a.yaml is held as it %q", got)
	}
	must(t, f.Truncate(0))
	_, err = f.WriteAt([]byte(pod("a", "v1")), 0)
	must(t, err)
	must(t, f.Close())
	r.expect("a.yaml a=v1", "b.yaml b=v1")
}
