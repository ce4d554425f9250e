package mounttable

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/roottest"
)

// TestLongRoot: a directory that is mounted, as that of a subPath, and then moved below many others, has a line of any length. The table
// is read all the same, and has the beginning of the path.
func TestLongRoot(t *testing.T) {
	roottest.Need(t, "mounting")
	volume, at := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(volume, "a"), 0o700); err != nil {
		t.Fatal(err)
	}
	roottest.Able(t, unix.Mount(filepath.Join(volume, "a"), at, "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	top, err := unix.Open(volume, unix.O_DIRECTORY|unix.O_PATH, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(top)
	deep, err := unix.Dup(top)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { unix.Close(deep) }()
	name := strings.Repeat(`\`, 255)
	for range 80 { // 80 KiB of escapes.
		if err := unix.Mkdirat(deep, name, 0o700); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(deep, name, unix.O_DIRECTORY|unix.O_PATH, 0)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(deep)
		deep = next
	}
	if err := unix.Renameat(top, "a", deep, "a"); err != nil {
		t.Fatal(err)
	}
	mounts, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(mounts, func(m Mount) bool { return m.Point == at })
	if i < 0 {
		t.Fatal("the mount isn't in the table")
	}
	if m := mounts[i]; !m.CutRoot || !strings.Contains(m.Root, filepath.Base(volume)+"/"+name+"/"+name) || len(m.Root) < unix.PathMax || m.Type == "" {
		t.Errorf("the root has %d bytes, cut: %v; type %q", len(m.Root), m.CutRoot, m.Type)
	}
}

// TestManyMounts: as many mounts as the kernel allows, with long lines, are read with the memory of those that are selected.
func TestManyMounts(t *testing.T) {
	const most = 100_000 // fs.mount-max
	table := filepath.Join(t.TempDir(), "mountinfo")
	f, err := os.Create(table)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out, root := bufio.NewWriter(f), strings.Repeat("/"+strings.Repeat("a", 255), 4)
	for i := range most {
		long := ""
		if i%10_000 == 0 {
			long = strings.Repeat(root, 200)
		}
		fmt.Fprintf(out, "%d 21 8:1 %s /m/%d rw - ext4 /dev/a rw\n", 22+i, root+long, i)
	}
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	mounts, err := SelectFile(table, func(m *Mount) bool { return strings.HasPrefix(m.Point, "/m/9999") })
	if err != nil || len(mounts) != 11 || mounts[10].Point != "/m/99999" {
		t.Fatalf("%d mounts: %v", len(mounts), err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	seen, peak := 0, uint64(0)
	_, err = SelectFile(table, func(*Mount) bool {
		if seen++; seen%10_000 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&after)
			peak = max(peak, after.HeapAlloc)
		}
		return false
	})
	if err != nil || seen != most || peak > before.HeapAlloc+4<<20 {
		t.Errorf("%d mounts with %d more bytes in use: %v", seen, int64(peak)-int64(before.HeapAlloc), err)
	}
}

// TestSettled: on a kernel that leaves out mounts, readings that never agree have no mount left out, and are no error.
func TestSettled(t *testing.T) {
	of := func(ids ...int) (all []Mount) {
		for _, id := range ids {
			all = append(all, Mount{ID: id})
		}
		return all
	}
	ids := func(mounts []Mount, err error) string {
		var all []int
		for i := range mounts {
			all = append(all, mounts[i].ID)
		}
		return fmt.Sprint(all, err)
	}
	reads := uint64(0)
	changing := func() ([]Mount, uint64, error) {
		reads++
		return of(1, int(2+reads%3)), reads, nil
	}
	if got := ids(settled(of(1, 2), 0, changing)); got != "[1 2 3 4] <nil>" || reads != maxReads-1 {
		t.Errorf("%s after %d readings", got, reads)
	}
	if got := ids(settled(of(1, 2), 7, func() ([]Mount, uint64, error) { return of(1, 2), 7, nil })); got != "[1 2] <nil>" {
		t.Error(got)
	}
	if got := ids(settled(of(1), 7, func() ([]Mount, uint64, error) { return of(1, 3), 8, nil })); got != "[1 3] <nil>" {
		t.Error(got)
	}
}
