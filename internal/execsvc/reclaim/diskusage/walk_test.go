package diskusage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/roottest"
)

// Each part of a pod has its figure. Files in memory, and files of another pod, aren't counted.
func TestCount(t *testing.T) {
	d := newDisk(t)
	p := pod("a", "x", "y", "memory")
	p.Spec.Volumes[2].EmptyDir.Medium = v1.StorageMediumMemory
	p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "keys", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{}}})
	for _, name := range []string{"x", "y", "memory"} {
		d.write(mi, d.volume(p, name), "a/b/file")
	}
	for i := range 500 {
		d.write(1, d.volume(p, "x"), "many", strconv.Itoa(i))
	}
	check(t, os.Truncate(filepath.Join(d.volume(p, "x"), "many/0"), 1<<30))
	base := d.dir("pods/a")
	d.write(5, base, "volumes/kubernetes.io~secret/keys/key")
	d.write(5, base, "volumes/kubernetes.io~host-path/host/file")
	d.write(9000, base, "etc-hosts")
	d.write(9000, base, "containers/main/00000001")
	d.write(9000, base, "containers/stray/00000001")
	logs := podmeta.LogDir(d.config().LogsDir, "default", "web", "a")
	d.write(mi, logs, "main/0.log")
	d.write(mi, logs, "main/1.log")
	for _, suffix := range []string{"", ".gz", ".tmp"} { // Rotated logs count too.
		d.write(mi, logs, "main/1.log.20260102-030405"+suffix)
	}
	d.write(mi, logs, "stray/1.log")
	d.write(mi, logs, "stray.log")
	d.write(mi, d.volume(pod("b"), "x"), "file")
	stray := sizeOf(t, filepath.Join(logs, "stray"))
	stray.add(sizeOf(t, filepath.Join(logs, "stray.log")))
	want := &Usage{
		EmptyDirs: map[string]Figure{"x": sizeOf(t, d.volume(p, "x")), "y": sizeOf(t, d.volume(p, "y"))},
		Others:    map[string]Figure{"keys": sizeOf(t, filepath.Join(base, "volumes/kubernetes.io~secret/keys"))},
		Logs:      map[string]Figure{"main": sizeOf(t, filepath.Join(logs, "main")), "": stray},
		Messages:  map[string]Figure{"main": sizeOf(t, filepath.Join(base, "containers/main")), "": sizeOf(t, filepath.Join(base, "containers/stray"))},
		Hosts:     sizeOf(t, filepath.Join(base, "etc-hosts")),
	}
	got := d.count(p, nil)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	sum := want.Hosts
	for _, f := range []Figure{want.EmptyDirs["x"], want.EmptyDirs["y"], want.Logs["main"], stray, want.Messages["main"], want.Messages[""]} {
		sum.add(f)
	}
	if got.Total() != sum || sum.Bytes < 9*mi {
		t.Errorf("it is %+v in all; want %+v", got.Total(), sum)
	}
	if u := d.count(pod("none"), nil); u.Err != nil || u.Total() != (Figure{}) {
		t.Errorf("a pod without files: %+v", u)
	}
}

// Files at any depth are counted, also below the open directories and beyond PATH_MAX.
func TestDeepFilesCount(t *testing.T) {
	for _, c := range []struct {
		name  string
		depth int
	}{{"d", window - 1}, {"d", window}, {"d", window + 1}, {"d", 3000}, {long, 40}} {
		d := newDisk(t)
		p := pod("a", "x")
		dir := d.volume(p, "x")
		d.chain(dir, c.name, c.depth, func(_, fd int) {
			// The chain continues among other names, so that the walk continues each directory after it.
			for _, other := range []string{"a", "z", "zz"} {
				check(t, unix.Mkdirat(fd, other, 0o755))
				create(t, fd, other+"/file")
			}
		})
		u := d.count(p, nil)
		if want := int64(1 + c.depth*7); u.Err != nil || u.EmptyDirs["x"].Inodes != want {
			t.Errorf("%d levels of %.3s: %d files, %v; want %d", c.depth, c.name, u.EmptyDirs["x"].Inodes, u.Err, want)
		}
	}
}

// Files that are too deep make a pod uncountable. Files that are moved each time are only missing in this
// count.
func TestUncountable(t *testing.T) {
	t.Run("depth", func(t *testing.T) {
		d := newDisk(t)
		p := pod("a", "x")
		d.chain(d.volume(p, "x"), "d", maxDepth, func(int, int) {})
		if u := d.count(p, nil); !errors.Is(u.Err, errTooDeep) || !u.Uncountable {
			t.Errorf("%v, uncountable: %v", u.Err, u.Uncountable)
		}
	})
	t.Run("moves", func(t *testing.T) {
		d := newDisk(t)
		p := pod("a", "x")
		dir := d.volume(p, "x")
		d.chain(dir, "d", window+5, func(_, fd int) {
			for i := range 10 {
				create(t, fd, strconv.Itoa(i))
			}
		})
		moves, last := 0, int64(1<<30)
		u := d.count(p, func(_ int, sofar Figure) error {
			// It is added once in each walk.
			again := sofar.Inodes > last
			if last = sofar.Inodes; again {
				return nil
			}
			from, to := filepath.Join(dir, "d/d/d"), filepath.Join(dir, "moved")
			if _, err := os.Stat(from); err != nil {
				from, to = to, from
			}
			moves++
			return os.Rename(from, to)
		})
		if !errors.Is(u.Err, errMoved) || u.Uncountable || moves != maxMoves {
			t.Errorf("after %d moves: %v, uncountable: %v", moves, u.Err, u.Uncountable)
		}
	})
	t.Run("one move", func(t *testing.T) {
		d := newDisk(t)
		p := pod("a", "x")
		dir := d.volume(p, "x")
		d.chain(dir, "d", window+5, func(_, fd int) {
			for i := range 10 {
				create(t, fd, strconv.Itoa(i))
			}
		})
		moved := false
		u := d.count(p, func(int, Figure) error {
			if moved {
				return nil
			}
			moved = true
			return os.Rename(filepath.Join(dir, "d/d/d"), filepath.Join(dir, "moved"))
		})
		if want := int64(1 + 11*(window+5)); !moved || u.Err != nil || u.EmptyDirs["x"].Inodes != want {
			t.Errorf("%d files, %v; want %d", u.EmptyDirs["x"].Inodes, u.Err, want)
		}
	})
}

// A count takes no more memory for deep and wide trees, and holds few descriptors.
func TestCountIsSmall(t *testing.T) {
	d := newDisk(t)
	p := pod("a", "x")
	d.chain(d.volume(p, "x"), long, 100, func(level, fd int) {
		if level%20 == 19 {
			for i := range 2000 {
				check(t, unix.Mkdirat(fd, fmt.Sprint(i), 0o755))
			}
		}
	})
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	base, peak, most, ticks := heap(), uint64(0), 0, 0
	u := d.count(p, func(int, Figure) error {
		if ticks++; ticks%16 == 0 {
			peak = max(peak, heap())
			open, err := os.ReadDir("/proc/self/fd")
			most = max(most, len(open))
			return err
		}
		return nil
	})
	if u.Err != nil || u.EmptyDirs["x"].Inodes != 1+100+5*2000 {
		t.Errorf("%+v, %v", u.EmptyDirs, u.Err)
	}
	if peak > base+2*mi {
		t.Errorf("it took %d KiB of memory", (peak-base)>>10)
	}
	if most > window+30 {
		t.Errorf("%d descriptors were open", most)
	}
}

func TestNamesOfOneFileCountOnce(t *testing.T) {
	d := newDisk(t)
	p := pod("a", "x")
	dir := d.volume(p, "x")
	d.write(3*mi, dir, "a/file")
	check(t, os.Link(filepath.Join(dir, "a/file"), filepath.Join(dir, "a/again")))
	check(t, os.Link(filepath.Join(dir, "a/file"), filepath.Join(dir, "b")))
	u := d.count(p, nil)
	want := sizeOf(t, dir)
	file := sizeOf(t, filepath.Join(dir, "b"))
	if got := u.EmptyDirs["x"]; got.Bytes != want.Bytes-2*file.Bytes || got.Inodes != 3 || u.Err != nil {
		t.Errorf("%+v, %v; want less than %+v", got, u.Err, want)
	}
	// If no more files can be stored, each name of a file counts.
	cfg := d.config()
	u = (&count{podsDir: cfg.PodDirs.Current, logsDir: cfg.LogsDir, pod: p, tick: func(int, Figure) error { return nil }}).run()
	if got := u.EmptyDirs["x"].Bytes - (want.Bytes - 2*file.Bytes); got < 0 || got > 3 {
		t.Errorf("without memory for the file's names there are %d bytes more", got)
	}
}

// A container that exchanges directories and links during the count can't lead it out of the volume, and can't
// make it fail.
func TestExchangedLinksLeadNowhere(t *testing.T) {
	d := newDisk(t)
	outside := d.dir("outside")
	d.write(64*mi, outside, "sub/file")
	p := pod("a", "x")
	dir := d.volume(p, "x")
	d.write(1, dir, "d/sub/file")
	check(t, os.Symlink(outside, filepath.Join(dir, "l")))
	check(t, os.Symlink(filepath.Join(outside, "sub/file"), filepath.Join(dir, "f")))
	var stop atomic.Bool
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for !stop.Load() {
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
		if u := d.count(p, nil); u.Total().Bytes >= mi || u.Total().Inodes > 10 || u.Err != nil {
			t.Errorf("%+v, %v", u.Total(), u.Err)
			break
		}
	}
	stop.Store(true)
	swapping.Wait()
}

// A link in place of a directory that podexecd made isn't followed either.
func TestLinkInPlaceOfTheDirectory(t *testing.T) {
	d := newDisk(t)
	d.write(mi, d.dir("outside"), "x/file")
	p := pod("a", "x")
	check(t, os.Symlink(d.dir("outside"), filepath.Join(d.dir("pods/a/volumes"), "kubernetes.io~empty-dir")))
	check(t, os.Symlink(d.dir("outside"), podmeta.LogDir(d.dir("logs"), "default", "web", "a")))
	u := d.count(p, nil)
	if u.Total() != (Figure{}) || u.Err == nil || u.Uncountable {
		t.Errorf("%+v, %v", u, u.Err)
	}
}

func TestCountStaysOnItsMount(t *testing.T) {
	roottest.Need(t, "mounting")
	d := newDisk(t)
	p := pod("a", "x")
	dir := d.volume(p, "x")
	d.write(mi, dir, "file")
	want := sizeOf(t, dir)
	for name, mount := range map[string]func(at string) error{
		"tmpfs": func(at string) error { return unix.Mount("tmpfs", at, "tmpfs", 0, "") },
		"bind":  func(at string) error { return unix.Mount(d.dir("outside"), at, "", unix.MS_BIND, "") },
	} {
		at := filepath.Join(dir, name)
		check(t, os.Mkdir(at, 0o750))
		check(t, mount(at))
		t.Cleanup(func() { check(t, unix.Unmount(at, 0)) })
		d.write(2*mi, at, "file")
	}
	if u := d.count(p, nil); u.EmptyDirs["x"] != want || u.Err != nil {
		t.Errorf("%+v, %v; want %+v", u.EmptyDirs["x"], u.Err, want)
	}
}

func TestNamesInErrors(t *testing.T) {
	d := newDisk(t)
	u := d.count(pod("a"), nil)
	if u.Err != nil {
		t.Fatal(u.Err)
	}
	d.write(1, d.dir("pods/a/volumes"), "kubernetes.io~empty-dir")
	if u = d.count(pod("a"), nil); u.Err == nil || !strings.HasPrefix(u.Err.Error(), "emptyDirs: ") {
		t.Errorf("%v", u.Err)
	}
}
