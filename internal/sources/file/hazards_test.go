package file

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/manifest"
)

func TestOnlyManifestsAreRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{
		"b.yml", "a.yaml", "c.json", // these are read
		"a.yaml.bak", "a.yaml~", ".a.yaml.swp", "#a.yaml#", "a.txt", "README", "a.YAML", ".hidden.yaml", ".yaml",
	} {
		write(t, filepath.Join(dir, name), pod("p", "v1"))
	}
	write(t, filepath.Join(dir, "c.json"),
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"j"},"spec":{"containers":[{"name":"main","image":"v1"}]}}`)
	must(t, os.MkdirAll(filepath.Join(dir, "sub.yaml", "deeper"), 0o755))
	write(t, filepath.Join(dir, "sub.yaml", "z.yaml"), pod("z", "v1"))
	must(t, os.WriteFile(filepath.Join(dir, "l\xe4tin.yaml"), nil, 0o644))

	r := run(t, Config{Path: dir})
	set := r.expect("#a.yaml# ignored", "README ignored", "a.YAML ignored", "a.txt ignored", "a.yaml p=v1",
		"a.yaml.bak ignored", "a.yaml~ ignored", "b.yml p=v1", "c.json j=v1", `l\xe4tin.yaml" ignored`)
	want := []manifest.Finding{{Severity: manifest.Ignored, Message: "not read: manifests end in .yaml, .yml or .json"}}
	if got := origin(t, set, "a.yaml~"); !slices.Equal(got.Findings, want) || got.Held || got.Name != filepath.Join(dir, "a.yaml~") {
		t.Errorf("a.yaml~: %+v", got)
	}
	if set.Source != "file" || set.ReadTime.IsZero() {
		t.Errorf("Source %q, ReadTime %v", set.Source, set.ReadTime)
	}
	if n := r.log.Count("File isn't read", "a.yaml~"); n != 1 {
		t.Errorf("a.yaml~ was logged %d times", n)
	}

	// They are added and removed as manifests are.
	must(t, os.Remove(filepath.Join(dir, "README")))
	rename(t, filepath.Join(dir, "a.txt"), filepath.Join(dir, "d.yaml"))
	write(t, filepath.Join(dir, "e.orig"), pod("p", "v1"))
	r.await("#a.yaml# ignored", "a.YAML ignored", "a.yaml p=v1", "a.yaml.bak ignored", "a.yaml~ ignored", "b.yml p=v1",
		"c.json j=v1", "d.yaml p=v1", "e.orig ignored", `l\xe4tin.yaml" ignored`)
}

func TestIgnoredFilesAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var want []string
	for i := range maxIgnored + 20 {
		name := fmt.Sprintf("%03d.txt", i)
		write(t, filepath.Join(dir, name), "")
		if i < maxIgnored {
			want = append(want, name+" ignored")
		}
	}
	place(t, filepath.Join(dir, "z.yaml"), pod("z", "v1"))
	r := run(t, Config{Path: dir})
	r.expect(append(want, "z.yaml z=v1")...)
	if n := r.log.Count("File isn't read"); n != maxIgnored {
		t.Errorf("%d log lines, want %d", n, maxIgnored)
	}
	// A file that is removed makes room for the next.
	must(t, os.Remove(filepath.Join(dir, "000.txt")))
	want = append(want[1:], fmt.Sprintf("%03d.txt ignored", maxIgnored))
	r.expect(append(want, "z.yaml z=v1")...)
}

// TestUnusableFilesAreHeld: files that aren't usable manifests don't affect others, at start and later, and nothing
// blocks.
func TestUnusableFilesAreHeld(t *testing.T) {
	t.Parallel()
	fill := func(t *testing.T, dir string) {
		must(t, unix.Mkfifo(filepath.Join(dir, "fifo.yaml"), 0o644))
		must(t, os.Symlink("nowhere", filepath.Join(dir, "dangling.yaml")))
		must(t, os.Symlink("/", filepath.Join(dir, "dirlink.yaml")))
		write(t, filepath.Join(dir, "empty.yaml"), "")
		write(t, filepath.Join(dir, "junk.yaml"), "\x7fELF\x00\x01\xff\xfe\x00{{{")
		must(t, os.WriteFile(filepath.Join(dir, "big.yaml"), bytes.Repeat([]byte("#"), 11<<20), 0o644))
	}
	want := []string{"a.yaml a=v1", "big.yaml held", "dangling.yaml held", "dirlink.yaml held", "empty.yaml held",
		"fifo.yaml held", "junk.yaml held"}
	check := func(t *testing.T, set manifest.Set) {
		t.Helper()
		for name, message := range map[string]string{
			"fifo.yaml":     "is a named pipe, not a regular file",
			"dangling.yaml": "is a symbolic link to nowhere, which doesn't exist",
			"big.yaml":      "is 11534336 bytes; at most 10485760 are read",
		} {
			if got := origin(t, set, name).Findings; len(got) != 1 || got[0].Severity != manifest.Error || got[0].Message != message {
				t.Errorf("%s: findings %+v, want %q", name, got, message)
			}
		}
	}
	t.Run("at start", func(t *testing.T) {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "a.yaml"), pod("a", "v1"))
		fill(t, dir)
		check(t, run(t, Config{Path: dir}).expect(want...))
	})
	t.Run("later", func(t *testing.T) {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "a.yaml"), pod("a", "v1"))
		r := run(t, Config{Path: dir})
		r.expect("a.yaml a=v1")
		fill(t, dir)
		check(t, r.await(want...))
	})
}

func TestInvalidEditHoldsTheOrigin(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	write(t, path, pod("a", "v1"))
	r := run(t, Config{Path: dir})
	r.expect("a.yaml a=v1")
	place(t, path, "kind: Pod\nmetadata: [")
	r.expect("a.yaml held")
	place(t, path, pod("a", "v2"))
	r.expect("a.yaml a=v2")
	if n := r.log.Count("level=WARN", "Manifest can't be used", path, "last good version stays"); n != 1 {
		t.Errorf("%d warnings, want 1; log:\n%s", n, r.log)
	}
	if n := r.log.Count("level=INFO", "can be used again", path); n != 1 {
		t.Errorf("%d notes of the recovery, want 1; log:\n%s", n, r.log)
	}
}

func TestEqualContentIsSilent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	write(t, path, pod("a", "v1"))
	r := run(t, Config{Path: dir})
	before := r.expect("a.yaml a=v1")

	now := time.Now()
	must(t, os.Chtimes(path, now, now))
	must(t, os.Chmod(path, 0o600))
	write(t, path, pod("a", "v1"))
	place(t, path, pod("a", "v1"))
	write(t, path, pod("a", "v1"))
	// This file is checked after the other one: its Set is the next only if there was none before.
	write(t, filepath.Join(dir, "b.yaml"), pod("b", "v1"))
	after := r.expect("a.yaml a=v1", "b.yaml b=v1")
	if after.Origins[0] != before.Origins[0] {
		t.Error("the origin of a.yaml is another one, with nothing changed")
	}
}

func TestOneChangeOfMany(t *testing.T) {
	t.Parallel()
	const files = 2500
	dir := t.TempDir()
	for i := range files {
		write(t, filepath.Join(dir, fmt.Sprintf("%04d.yaml", i)), pod(fmt.Sprint("p", i), "v1"))
	}
	r := run(t, Config{Path: dir})
	before := r.next()
	place(t, filepath.Join(dir, "0123.yaml"), pod("p123", "v2"))
	after := r.next()
	if len(before.Origins) != files || len(after.Origins) != files {
		t.Fatalf("%d origins, then %d, want %d", len(before.Origins), len(after.Origins), files)
	}
	for i := range files {
		if same := before.Origins[i] == after.Origins[i]; same == (i == 123) {
			t.Errorf("origin %d: same pointer is %v", i, same)
		}
	}
}

// TestSymlinkTargetChanges: a change of a symbolic link's target has no event; comparing finds it.
func TestSymlinkTargetChanges(t *testing.T) {
	t.Parallel()
	dir, elsewhere := t.TempDir(), t.TempDir()
	target := filepath.Join(elsewhere, "target")
	write(t, target, pod("a", "v1"))
	must(t, os.Symlink(target, filepath.Join(dir, "a.yaml")))
	r := run(t, Config{Path: dir, CheckFrequency: 20 * time.Millisecond})
	r.expect("a.yaml a=v1")
	write(t, target, pod("a", "v2"))
	r.expect("a.yaml a=v2")
	must(t, os.Remove(target))
	r.expect("a.yaml held")
	write(t, target, pod("a", "v3"))
	r.await("a.yaml a=v3")
}

// TestConfigMapVolume: a ConfigMap volume changes by one rename of a hidden link. The files themselves have no
// events.
func TestConfigMapVolume(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, version := range []string{"v1", "v2"} {
		must(t, os.Mkdir(filepath.Join(dir, ".."+version), 0o755))
		write(t, filepath.Join(dir, ".."+version, "a.yaml"), pod("a", version))
	}
	must(t, os.Symlink("..v1", filepath.Join(dir, "..data")))
	must(t, os.Symlink("..data/a.yaml", filepath.Join(dir, "a.yaml")))
	r := run(t, Config{Path: dir})
	r.expect("a.yaml a=v1")
	must(t, os.Symlink("..v2", filepath.Join(dir, "..data_tmp")))
	rename(t, filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data"))
	r.expect("a.yaml a=v2")
}

func TestLostEventsAreMadeUpFor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), pod("a", "v1"))
	errs := make(chan error)
	r := runWith(t, Config{Path: dir}, func(dir string) (*watch, error) {
		w, err := openWatch(dir)
		if err != nil {
			return nil, err
		}
		w.events, w.errors = nil, errs
		return w, nil
	})
	r.expect("a.yaml a=v1")
	write(t, filepath.Join(dir, "b.yaml"), pod("b", "v1"))
	write(t, filepath.Join(dir, "a.yaml"), pod("a", "v2"))
	errs <- fsnotify.ErrEventOverflow
	r.await("a.yaml a=v2", "b.yaml b=v1")
}

// TestNoWatch: without inotify the source compares, logs that once, and retries the watch.
func TestNoWatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), pod("a", "v1"))
	allow := make(chan struct{})
	r := runWith(t, Config{Path: dir, CheckFrequency: 20 * time.Millisecond}, func(dir string) (*watch, error) {
		select {
		case <-allow:
			return openWatch(dir)
		default:
			return nil, errors.New("too many open files")
		}
	})
	r.expect("a.yaml a=v1")
	write(t, filepath.Join(dir, "a.yaml"), pod("a", "v2"))
	r.await("a.yaml a=v2")
	must(t, os.Remove(filepath.Join(dir, "a.yaml")))
	place(t, filepath.Join(dir, "b.yaml"), pod("b", "v1"))
	r.await("b.yaml b=v1")
	close(allow)
	write(t, filepath.Join(dir, "b.yaml"), pod("b", "v2"))
	r.await("b.yaml b=v2")
	place(t, filepath.Join(dir, "b.yaml"), pod("b", "v3"))
	r.await("b.yaml b=v3")
	if n := r.log.Count("No inotify watch", "too many open files"); n != 1 {
		t.Errorf("%d warnings, want 1; log:\n%s", n, r.log)
	}
	if n := r.log.Count("Watching for changes again"); n != 1 {
		t.Errorf("%d notes of the recovery, want 1; log:\n%s", n, r.log)
	}
}

// TestWatchFails: a watch that fails is set again.
func TestWatchFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), pod("a", "v1"))
	broken := make(chan error)
	opened := make(chan *watch, 8)
	r := runWith(t, Config{Path: dir}, func(dir string) (*watch, error) {
		w, err := openWatch(dir)
		if err == nil && len(opened) == 0 {
			w.errors = broken
		}
		opened <- w
		return w, err
	})
	r.expect("a.yaml a=v1")
	broken <- errors.New("read: input/output error")
	write(t, filepath.Join(dir, "a.yaml"), pod("a", "v2"))
	r.await("a.yaml a=v2")
	place(t, filepath.Join(dir, "a.yaml"), pod("a", "v3"))
	r.await("a.yaml a=v3")
	if len(opened) != 2 {
		t.Errorf("%d watches were set, want 2", len(opened))
	}
}
