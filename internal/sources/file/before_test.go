package file

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/roottest"
)

// known returns the origins of a source's earlier Run.
func known(origins ...string) func() []string { return func() []string { return origins } }

// TestReplacedBeforeTheStart: a directory with manifests that was replaced while podconfigd was down is an
// error, until an empty directory confirms that its manifests are removed.
func TestReplacedBeforeTheStart(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(t *testing.T, path string){
		"empty file": func(t *testing.T, path string) { write(t, path, "") },
		"a manifest": func(t *testing.T, path string) { write(t, path, pod("b", "v1")) },
		"named pipe": func(t *testing.T, path string) { must(t, unix.Mkfifo(path, 0o644)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "manifests")
			put(t, path)
			r := run(t, Config{Path: path, Known: known("/elsewhere/b.yaml", filepath.Join(path, "a.yaml"))})
			if set := r.expect("error"); name != "named pipe" && !errors.Is(set.Err, errReplaced) {
				t.Errorf("Err %v, want %v", set.Err, errReplaced)
			}
			must(t, os.Remove(path))
			must(t, os.Mkdir(path, 0o755))
			r.await()
			must(t, os.Remove(path))
			place(t, path, pod("b", "v1"))
			r.await("manifests b=v1")
		})
	}
}

// TestFileReplacedBeforeTheStart: a directory in the place of a file is an error after a restart too, until the
// operator confirms it.
func TestFileReplacedBeforeTheStart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "manifests")
	must(t, os.Mkdir(path, 0o755))
	place(t, filepath.Join(path, "a.yaml"), pod("a", "v1"))
	r := run(t, Config{Path: path, Known: known(path)})
	if set := r.expect("error"); !errors.Is(set.Err, errFile) || !strings.Contains(set.Err.Error(), confirmFile) {
		t.Errorf("Err %v, want %v", set.Err, errFile)
	}
	write(t, filepath.Join(path, confirmFile), "")
	r.await("a.yaml a=v1")
}

// TestUnchangedBeforeTheStart: a new or unchanged path is accepted.
func TestUnchangedBeforeTheStart(t *testing.T) {
	t.Parallel()
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "a.yaml")
	write(t, file, pod("a", "v1"))
	for _, c := range []struct {
		path, known string
		want        []string
	}{
		{path: dir, known: filepath.Join(dir, "gone.yaml")},
		{path: dir, known: dir + "-other"},
		{file, file, []string{"a.yaml a=v1"}},
		{file, filepath.Dir(file), []string{"a.yaml a=v1"}},
	} {
		run(t, Config{Path: c.path, Known: known(c.known), PlaceFile: filepath.Join(t.TempDir(), "place")}).expect(c.want...)
	}
}

// TestUnmountedBeforeTheStart: a directory whose file system isn't mounted when podconfigd starts is an error, until
// it is mounted or the operator confirms it.
func TestUnmountedBeforeTheStart(t *testing.T) {
	roottest.Need(t, "mounting")
	parent := t.TempDir()
	dir := filepath.Join(parent, "manifests")
	must(t, os.Mkdir(dir, 0o755))
	mount := func() { must(t, unix.Mount("podstream-test", dir, "tmpfs", 0, "size=1m")) }
	unmount := func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) }
	t.Cleanup(func() {
		for unix.Unmount(dir, unix.MNT_DETACH) == nil {
		}
	})
	a := filepath.Join(dir, "a.yaml")
	cfg := Config{Path: dir, PlaceFile: filepath.Join(parent, "place")}
	life := func(name string, body func(r *running)) {
		t.Run(name, func(t *testing.T) { body(run(t, cfg)) })
		cfg.Known = known(a)
	}
	mount()
	write(t, a, pod("a", "v1"))
	life("first", func(r *running) { r.expect("a.yaml a=v1") })
	unmount()
	fails := func(r *running) {
		if set := r.expect("error"); !errors.Is(set.Err, errUnmounted) {
			r.t.Errorf("Err %v, want %v", set.Err, errUnmounted)
		}
	}
	life("unmounted", fails)
	life("still unmounted", func(r *running) {
		fails(r)
		mount()
		r.await()
	})
	life("mounted, and empty", func(r *running) { r.expect() })
	unmount()
	life("confirmed", func(r *running) {
		fails(r)
		write(t, filepath.Join(dir, confirmFile), "")
		r.await()
	})
	must(t, os.Remove(filepath.Join(dir, confirmFile)))
	life("confirmed before", func(r *running) { r.expect() })
	write(t, filepath.Join(dir, confirmFile), "")
	life("another confirmation, which isn't needed", func(r *running) { r.expect() })
	mount()
	write(t, a, pod("a", "v1"))
	life("mounted again", func(r *running) { r.expect("a.yaml a=v1") })
	unmount()
	life("unmounted, with the confirmation of before", func(r *running) {
		fails(r)
		must(t, os.Remove(filepath.Join(dir, confirmFile)))
		write(t, filepath.Join(dir, confirmFile), "")
		r.await()
	})
	must(t, os.Remove(filepath.Join(dir, confirmFile)))
	must(t, os.WriteFile(cfg.PlaceFile, []byte("{"), 0o600))
	life("nothing is known of the mount", func(r *running) {
		fails(r)
		if n := r.log.Count("isn't known"); n != 1 {
			r.t.Errorf("%d warnings, want 1", n)
		}
	})
}
