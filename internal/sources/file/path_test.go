package file

import (
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/manifest"
)

func TestPathComesAndGoes(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	dir := filepath.Join(parent, "deep", "manifests")
	r := run(t, Config{Path: dir, QuietPeriod: slowly})
	if set := r.expect("error"); !errors.Is(set.Err, fs.ErrNotExist) || set.Origins != nil {
		t.Errorf("Err %v, Origins %v", set.Err, set.Origins)
	}
	must(t, os.MkdirAll(dir, 0o755))
	write(t, filepath.Join(dir, "a.yaml"), pod("a", "v1"))
	before := r.expect("a.yaml a=v1")

	// No Set in between removes the pods.
	must(t, os.RemoveAll(dir))
	r.expect("error")
	must(t, os.Mkdir(dir, 0o755))
	write(t, filepath.Join(dir, "a.yaml"), pod("a", "v1"))
	after := r.expect("a.yaml a=v1")
	if before.Origins[0] != after.Origins[0] {
		t.Error("the same content makes another origin")
	}
	// The path is watched again.
	place(t, filepath.Join(dir, "b.yaml"), pod("b", "v1"))
	r.expect("a.yaml a=v1", "b.yaml b=v1")
	if n := r.log.Count("level=WARN", "Manifests can't be read"); n != 2 {
		t.Errorf("%d warnings, want 2; log:\n%s", n, r.log)
	}
	if n := r.log.Count("level=INFO", "Manifests can be read again"); n != 2 {
		t.Errorf("%d notes of the recovery, want 2; log:\n%s", n, r.log)
	}
}

// TestFilesGoWithThePath: files that are removed with the whole path don't mean "no pods", even without an
// event of the path itself.
func TestFilesGoWithThePath(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	dir := filepath.Join(parent, "deep", "manifests")
	must(t, os.MkdirAll(dir, 0o755))
	write(t, filepath.Join(dir, "a.yaml"), pod("a", "v1"))
	r := run(t, Config{Path: dir, QuietPeriod: slowly})
	r.expect("a.yaml a=v1")
	rename(t, filepath.Join(parent, "deep"), filepath.Join(parent, "away"))
	must(t, os.Remove(filepath.Join(parent, "away", "manifests", "a.yaml")))
	r.expect("error")
}

// TestReturningPathIsGivenTime: a path that returns has time to be filled, however its return was detected.
func TestReturningPathIsGivenTime(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "manifests")
	var sets []manifest.Set
	cfg := New(Config{Path: dir, Node: "node", Logger: slog.New(slog.DiscardHandler)}).cfg
	l := &loop{Config: cfg, open: openWatch, writersOf: writersOf, out: func(set manifest.Set) { sets = append(sets, set) }, waits: map[string]*wait{}}
	defer l.unwatch()
	now := time.Now()
	step := func(after time.Duration) {
		now = now.Add(after)
		l.relist(t.Context(), now)
		l.emit()
	}
	step(0)
	must(t, os.Mkdir(dir, 0o755))
	step(recheckInterval)
	if len(sets) != 1 || sets[0].Err == nil {
		t.Fatalf("an empty directory that has just come is %v", show(sets[len(sets)-1]))
	}
	if got := l.next(); !got.Equal(now.Add(cfg.QuietPeriod)) {
		t.Errorf("the next look is after %v, want %v", got.Sub(now), cfg.QuietPeriod)
	}
	place(t, filepath.Join(dir, "a.yaml"), pod("a", "v1"))
	step(cfg.QuietPeriod)
	if len(sets) != 2 || !slices.Equal(show(sets[1]), []string{"a.yaml a=v1"}) {
		t.Errorf("a filled directory is %v", show(sets[len(sets)-1]))
	}
}

// TestMissingPathIsWatchedFor: while the path is missing its parent directory is watched.
func TestMissingPathIsWatchedFor(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	opened := make(chan string, 8)
	r := runWith(t, Config{Path: filepath.Join(parent, "manifests")}, func(dir string) (*watch, error) {
		opened <- dir
		return openWatch(dir)
	})
	r.expect("error")
	select {
	case got := <-opened:
		if got != parent {
			t.Errorf("%s is watched, want %s", got, parent)
		}
	default:
		t.Error("nothing is watched")
	}
}

// TestPathBecomesAnotherKind: a directory with manifests that is replaced by anything else is an error, and its
// manifests are read when it is a directory again.
func TestPathBecomesAnotherKind(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(t *testing.T, path string){
		"empty file":  func(t *testing.T, path string) { write(t, path, "") },
		"a manifest":  func(t *testing.T, path string) { write(t, path, pod("b", "v1")) },
		"named pipe":  func(t *testing.T, path string) { must(t, unix.Mkfifo(path, 0o644)) },
		"device":      func(t *testing.T, path string) { must(t, os.Symlink("/dev/zero", path)) },
		"kernel file": func(t *testing.T, path string) { must(t, os.Symlink("/proc/kmsg", path)) },
		"socket": func(t *testing.T, path string) {
			listener, err := net.Listen("unix", path)
			must(t, err)
			t.Cleanup(func() { listener.Close() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parent := t.TempDir()
			path, old := filepath.Join(parent, "manifests"), filepath.Join(parent, "old")
			must(t, os.Mkdir(path, 0o755))
			write(t, filepath.Join(path, "a.yaml"), pod("a", "v1"))
			r := run(t, Config{Path: path, CheckFrequency: 20 * time.Millisecond})
			before := r.expect("a.yaml a=v1")
			rename(t, path, old)
			put(t, path)
			for set := r.expect("error"); errors.Is(set.Err, fs.ErrNotExist); { // Between the rename and the new file.
				set = r.expect("error")
			}
			// Each comparison finds it again, and sends nothing else.
			for range 5 {
				if set := <-r.sets; set.Err == nil {
					t.Fatalf("the Set is %q, want an error", show(set))
				}
			}
			must(t, os.Remove(path))
			rename(t, old, path)
			if after := r.await("a.yaml a=v1"); after.Origins[0] != before.Origins[0] {
				t.Error("the same content makes another origin")
			}
		})
	}
}

// TestEmptyDirectoryBecomesAFile: a directory without manifests has no pods to lose, so a file in its place is
// read.
func TestEmptyDirectoryBecomesAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "manifests")
	must(t, os.Mkdir(path, 0o755))
	r := run(t, Config{Path: path, CheckFrequency: 20 * time.Millisecond})
	r.expect()
	must(t, os.Remove(path))
	place(t, path, pod("b", "v1"))
	r.await("manifests b=v1")
}

func TestPathIsNoDirectory(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	write(t, filepath.Join(parent, "file"), "")
	dir := filepath.Join(parent, "file", "manifests")
	r := run(t, Config{Path: dir})
	if set := r.expect("error"); !errors.Is(set.Err, syscall.ENOTDIR) {
		t.Errorf("Err %v", set.Err)
	}
	// Another reason produces another Set.
	must(t, os.Remove(filepath.Join(parent, "file")))
	if set := r.expect("error"); !errors.Is(set.Err, fs.ErrNotExist) {
		t.Errorf("Err %v", set.Err)
	}
}

func TestPathIsADanglingLink(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	link := filepath.Join(parent, "manifests")
	must(t, os.Symlink("target", link))
	r := run(t, Config{Path: link})
	r.expect("error")
	must(t, os.Mkdir(filepath.Join(parent, "target"), 0o755))
	write(t, filepath.Join(parent, "target", "a.yaml"), pod("a", "v1"))
	r.await("a.yaml a=v1")
}

// TestDirectoryReplaced: a directory that is replaced by another one, and is missing for a moment in between, is one
// change.
func TestDirectoryReplaced(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	dir, next := filepath.Join(parent, "manifests"), filepath.Join(parent, "next")
	for _, d := range []string{dir, next} {
		must(t, os.Mkdir(d, 0o755))
	}
	write(t, filepath.Join(dir, "a.yaml"), pod("a", "v1"))
	write(t, filepath.Join(dir, "b.yaml"), pod("b", "v1"))
	write(t, filepath.Join(next, "b.yaml"), pod("b", "v2"))
	write(t, filepath.Join(next, "c.yaml"), pod("c", "v1"))
	r := run(t, Config{Path: dir, QuietPeriod: slowly})
	r.expect("a.yaml a=v1", "b.yaml b=v1")
	rename(t, dir, filepath.Join(parent, "old"))
	rename(t, next, dir)
	r.expect("b.yaml b=v2", "c.yaml c=v1")

	// Only the new directory has events.
	write(t, filepath.Join(parent, "old", "a.yaml"), pod("a", "v9"))
	place(t, filepath.Join(dir, "c.yaml"), pod("c", "v2"))
	r.expect("b.yaml b=v2", "c.yaml c=v2")
}

// TestDirectoryLinkSwitched: a link that is switched to another directory has no event; comparing finds it.
func TestDirectoryLinkSwitched(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	link := filepath.Join(parent, "manifests")
	for _, d := range []string{"v1", "v2"} {
		must(t, os.Mkdir(filepath.Join(parent, d), 0o755))
		write(t, filepath.Join(parent, d, "a.yaml"), pod("a", d))
	}
	must(t, os.Symlink("v1", link))
	r := run(t, Config{Path: link, CheckFrequency: 20 * time.Millisecond})
	r.expect("a.yaml a=v1")
	must(t, os.Symlink("v2", link+".new"))
	rename(t, link+".new", link)
	r.expect("a.yaml a=v2")
	place(t, filepath.Join(parent, "v2", "a.yaml"), pod("a", "v3"))
	r.expect("a.yaml a=v3")
}

func TestSingleFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "pod.conf")
	r := run(t, Config{Name: "file:one", Path: path})
	if set := r.expect("error"); set.Source != "file:one" {
		t.Errorf("Source %q", set.Source)
	}
	// Other files of the directory don't matter.
	write(t, filepath.Join(dir, "other.yaml"), pod("other", "v1"))
	write(t, path, pod("a", "v1"))
	r.expect("pod.conf a=v1")
	place(t, path, pod("a", "v2"))
	r.expect("pod.conf a=v2")
	place(t, path, "kind: [")
	r.expect("pod.conf held")
	must(t, os.Remove(path))
	r.expect("error")
	place(t, path, pod("a", "v2"))
	r.expect("pod.conf a=v2")
	// A directory in its place is an error, also an empty one.
	must(t, os.Remove(path))
	must(t, os.Mkdir(path, 0o755))
	for set := r.expect("error"); !errors.Is(set.Err, errFile); {
		set = r.expect("error")
	}
	must(t, os.Remove(path))
	place(t, path, pod("a", "v2"))
	r.await("pod.conf a=v2")
}

func TestNoPath(t *testing.T) {
	if err := New(Config{}).Run(t.Context(), nil); err == nil {
		t.Error("a source without a path runs")
	}
}

// TestSignOfLife: an unchanged source sends a set once every CheckFrequency, with the same origins.
func TestSignOfLife(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	place(t, filepath.Join(dir, "a.yaml"), pod("a", "v1"))
	r := run(t, Config{Path: dir, CheckFrequency: 20 * time.Millisecond})
	first, second := <-r.sets, <-r.sets
	if !equalSets(first, second) || !second.ReadTime.After(first.ReadTime) {
		t.Errorf("two readings of one state gave %v and %v", first, second)
	}
}
