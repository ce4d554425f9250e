package file

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// configMapVolume is a directory that changes like a ConfigMap volume of the kubelet.
type configMapVolume struct {
	t       *testing.T
	dir     string
	version int
}

// update does the kubelet's steps in its order: it writes the new files to a new hidden directory, switches the
// link through which all files are read, adds links for new files, and removes the links of missing files and
// the old directory.
func (v *configMapVolume) update(files map[string]string) {
	v.t.Helper()
	data := filepath.Join(v.dir, atomicWriterLink)
	old, _ := os.Readlink(data)
	v.version++
	next := fmt.Sprintf("..2026_11_21_%02d", v.version)
	must(v.t, os.Mkdir(filepath.Join(v.dir, next), 0o755))
	for name, content := range files {
		write(v.t, filepath.Join(v.dir, next, name), content)
	}
	must(v.t, os.Symlink(next, data+"_tmp"))
	rename(v.t, data+"_tmp", data)
	for name := range files {
		if _, err := os.Lstat(filepath.Join(v.dir, name)); err != nil {
			must(v.t, os.Symlink(filepath.Join(atomicWriterLink, name), filepath.Join(v.dir, name)))
		}
	}
	there, err := os.ReadDir(v.dir)
	must(v.t, err)
	for _, entry := range there {
		if _, stays := files[entry.Name()]; !stays && !hidden(entry.Name()) {
			must(v.t, os.Remove(filepath.Join(v.dir, entry.Name())))
		}
	}
	if old != "" {
		must(v.t, os.RemoveAll(filepath.Join(v.dir, old)))
	}
}

// TestConfigMapVolumeRollout: files that a ConfigMap's update adds or removes are added or removed here. A link
// that dangles for a moment is not reported.
func TestConfigMapVolumeRollout(t *testing.T) {
	t.Parallel()
	v := &configMapVolume{t: t, dir: t.TempDir()}
	v.update(map[string]string{"a.yaml": pod("a", "v1"), "c.yaml": pod("c", "v1")})
	r := run(t, Config{Path: v.dir, QuietPeriod: slowly})
	r.expect("a.yaml a=v1", "c.yaml c=v1")
	for i := range 5 {
		version := fmt.Sprint("w", i)
		v.update(map[string]string{"a.yaml": pod("a", version), "b.yaml": pod("b", version)})
		r.await("a.yaml a="+version, "b.yaml b="+version)
		v.update(map[string]string{"a.yaml": pod("a", version), "c.yaml": pod("c", version)})
		r.await("a.yaml a="+version, "c.yaml c="+version)
	}
	if n := r.log.Count("level=WARN"); n != 0 {
		t.Errorf("%d warnings, want none; log:\n%s", n, r.log)
	}
}

// TestDanglingLinkIsHeldInTheEnd: a link that dangles for longer than the quiet period is held, also if a listing
// finds it.
func TestDanglingLinkIsHeldInTheEnd(t *testing.T) {
	t.Parallel()
	v := &configMapVolume{t: t, dir: t.TempDir()}
	v.update(map[string]string{"a.yaml": pod("a", "v1")})
	r := run(t, Config{Path: v.dir})
	r.expect("a.yaml a=v1")
	must(t, os.Mkdir(filepath.Join(v.dir, "..empty"), 0o755))
	must(t, os.Symlink("..empty", filepath.Join(v.dir, "..data_tmp")))
	rename(t, filepath.Join(v.dir, "..data_tmp"), filepath.Join(v.dir, atomicWriterLink))
	r.expect("a.yaml held")
}

// TestDirectoryExchanged: a directory that is exchanged with another one in a single step is read again, and
// watched.
func TestDirectoryExchanged(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	dir, next := filepath.Join(parent, "manifests"), filepath.Join(parent, "manifests.new")
	for d, version := range map[string]string{dir: "v1", next: "v2"} {
		must(t, os.Mkdir(d, 0o755))
		write(t, filepath.Join(d, "a.yaml"), pod("a", version))
	}
	write(t, filepath.Join(next, "b.yaml"), pod("b", "v2"))
	r := run(t, Config{Path: dir})
	r.expect("a.yaml a=v1")
	must(t, unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, next, unix.RENAME_EXCHANGE))
	r.expect("a.yaml a=v2", "b.yaml b=v2")
	place(t, filepath.Join(dir, "a.yaml"), pod("a", "v3"))
	r.expect("a.yaml a=v3", "b.yaml b=v2")
}

// TestSingleFileLinkSwitched: if the path is a link to a file, the switch of the link is an event of its directory.
func TestSingleFileLinkSwitched(t *testing.T) {
	t.Parallel()
	dir, elsewhere := t.TempDir(), t.TempDir()
	link := filepath.Join(dir, "pod.yaml")
	for _, version := range []string{"v1", "v2"} {
		write(t, filepath.Join(elsewhere, version), pod("a", version))
	}
	must(t, os.Symlink(filepath.Join(elsewhere, "v1"), link))
	r := run(t, Config{Path: link})
	r.expect("pod.yaml a=v1")
	must(t, os.Symlink(filepath.Join(elsewhere, "v2"), link+".new"))
	rename(t, link+".new", link)
	r.expect("pod.yaml a=v2")
}

// TestSilentWatch: on a network file system the watch reports no changes of other clients; comparing finds new,
// changed, replaced and removed files.
func TestSilentWatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), pod("a", "v1"))
	write(t, filepath.Join(dir, "b.yaml"), pod("b", "v1"))
	r := runWith(t, Config{Path: dir, CheckFrequency: 20 * time.Millisecond}, func(dir string) (*watch, error) {
		w, err := openWatch(dir)
		if err == nil {
			w.events, w.errors = nil, nil
		}
		return w, err
	})
	r.expect("a.yaml a=v1", "b.yaml b=v1")
	write(t, filepath.Join(dir, "a.yaml"), pod("a", "v2"))
	r.await("a.yaml a=v2", "b.yaml b=v1")
	place(t, filepath.Join(dir, "b.yaml"), pod("b", "v2"))
	r.await("a.yaml a=v2", "b.yaml b=v2")
	must(t, os.Remove(filepath.Join(dir, "a.yaml")))
	place(t, filepath.Join(dir, "c.yaml"), pod("c", "v1"))
	r.await("b.yaml b=v2", "c.yaml c=v1")
	if n := r.log.Count("level=WARN"); n != 0 {
		t.Errorf("%d warnings about a working watch; log:\n%s", n, r.log)
	}
}

// TestFloodOfFiles: all files of a large number of new files are read, even if there are more than the event
// buffer holds.
func TestFloodOfFiles(t *testing.T) {
	t.Parallel()
	const files = 10 * eventBuffer
	dir := t.TempDir()
	r := run(t, Config{Path: dir})
	r.expect()
	for i := range files {
		place(t, filepath.Join(dir, fmt.Sprintf("%05d.yaml", i)), pod(fmt.Sprint("p", i), "v1"))
	}
	set := r.next()
	for len(set.Origins) < files {
		set = r.next()
	}
	for i, got := range show(set) {
		if want := fmt.Sprintf("%05d.yaml p%d=v1", i, i); got != want {
			t.Fatalf("file %d is %q, want %q", i, got, want)
		}
	}
}

// TestBatchLosesNoEvent: events that one batch doesn't take are left to the next one, and none is lost.
func TestBatchLosesNoEvent(t *testing.T) {
	t.Parallel()
	const events = 2*maxBatch + 3
	dir := t.TempDir()
	s := steps(dir)
	s.after(0)
	queue := make(chan fsnotify.Event, events)
	s.watch = &watch{dir: dir, events: queue, close: func() error { return nil }}
	for i := range events {
		path := filepath.Join(dir, fmt.Sprintf("%05d.yaml", i))
		write(t, path, pod(fmt.Sprint("p", i), "v1"))
		queue <- fsnotify.Event{Name: path, Op: fsnotify.Create}
	}
	for len(queue) > 0 {
		before := len(queue)
		s.batch(t.Context(), <-queue, true)
		if took := before - len(queue); took > maxBatch {
			t.Errorf("a batch takes %d events, want at most %d", took, maxBatch)
		}
	}
	if heard := len(s.entries) + len(s.waits); heard != events {
		t.Errorf("%d files had events, want %d", heard, events)
	}
}
