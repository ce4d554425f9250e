package initiator

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/roottest"
)

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// newHost returns a machine of directories.
func newHost(t *testing.T) *Host {
	t.Helper()
	h := &Host{Sys: t.TempDir(), Dev: t.TempDir()}
	must(t, os.Mkdir(h.sys("block"), 0o750))
	return h
}

// add adds a loop device as the block device in the directory of sysfs, with attributes. It returns its number and its file.
func (h *Host) add(t *testing.T, name, dir string, attributes ...string) (number, file string) {
	t.Helper()
	file = roottest.LoopDevice(t)
	var st unix.Stat_t
	must(t, unix.Stat(file, &st), unix.Mknod(h.dev(name), unix.S_IFBLK|0o600, int(st.Rdev)))
	number = fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	for _, a := range append(attributes, "dev="+number) {
		attribute, value, _ := strings.Cut(a, "=")
		set(t, value, dir, attribute)
	}
	return number, file
}

// set sets an attribute.
func set(t *testing.T, value string, path ...string) {
	t.Helper()
	at := filepath.Join(path...)
	must(t, os.MkdirAll(filepath.Dir(at), 0o750), os.WriteFile(at, []byte(value+"\n"), 0o600))
}

// TestIsPartition: a partition's map is known by its UUID, and those of LVM, of other disks and of partitions of partitions aren't such.
func TestIsPartition(t *testing.T) {
	for uuid, want := range map[string]bool{
		"part1-mpath-1": true, "part128-mpath-1": true, "part1-mpath-2": false, "part1-mpath-12": false, "part1-mpath-": false, "mpath-1": false,
		"part-mpath-1": false, "partx-mpath-1": false, "part1mpath-1": false, "part1-part1-mpath-1": false, "part1-mpath-1-mpath-1": false,
		"LVM-mpath-1": false, "": false,
	} {
		if got := isPartition(uuid, "mpath-1"); got != want {
			t.Errorf("%q: %v", uuid, got)
		}
	}
	for _, of := range []string{"mpath-", "", "LVM-1"} {
		if isPartition("part1-"+of, of) {
			t.Errorf("%q isn't a multipath device", of)
		}
	}
}

// TestMapsInUse: whatever uses a partition, or its map, keeps the disk.
func TestMapsInUse(t *testing.T) {
	roottest.Need(t, "mounting")
	h := newHost(t)
	whole := h.sys("block/dm-0")
	number, _ := h.add(t, "dm-0", whole, "dm/uuid=mpath-1", "holders/dm-1=", "holders/dm-2=", "holders/dm-3=")
	part := h.sys("block/dm-1")
	_, file := h.add(t, "dm-1", part, "dm/uuid=part1-mpath-1", "slaves/dm-0=")
	h.add(t, "dm-2", h.sys("block/dm-2"), "dm/uuid=part2-mpath-1", "slaves/dm-0=", "slaves/dm-7=")
	h.add(t, "dm-3", h.sys("block/dm-3"), "dm/uuid=LVM-1", "slaves/dm-0=")
	maps, err := h.partitionMaps("dm-0")
	if err != nil || len(maps) != 1 || maps[0].name != "dm-1" {
		t.Fatalf("%v, %v", maps, err)
	}
	inUse(t, h, number, maps, "dm-0", "dm-2, dm-3 has it")
	must(t, os.Remove(filepath.Join(whole, "holders/dm-2")), os.Remove(filepath.Join(whole, "holders/dm-3")))
	inUse(t, h, number, nil, "dm-0", "dm-1 has it")
	usedPart(t, h, number, maps, device{"dm-1", number, part}, file)
	// One that the kernel shows as a part of the disk.
	part = filepath.Join(whole, "dm-0p1")
	_, file = h.add(t, "dm-0p1", part, "partition=1")
	usedPart(t, h, number, maps, device{"dm-0p1", number, part}, file)
	files, err := h.free("dm-0", number, maps...)
	must(t, err)
	must(t, files.Close())
}

func inUse(t *testing.T, h *Host, number string, maps []device, disk, by string) {
	t.Helper()
	files, err := h.free("dm-0", number, maps...)
	if used, is := errors.AsType[*InUseError](err); !is || used.Disk != disk || used.By != by {
		t.Errorf("%v; want %s: %s", err, disk, by)
	}
	_ = files.Close()
}

// usedPart uses a part in several ways.
func usedPart(t *testing.T, h *Host, number string, maps []device, part device, file string) {
	t.Helper()
	set(t, "", part.dir, "holders/dm-9")
	inUse(t, h, number, maps, part.name, "dm-9 has it")
	must(t, os.Remove(filepath.Join(part.dir, "holders/dm-9")))

	if out, err := exec.CommandContext(t.Context(), "mkfs.ext4", "-q", file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	at := t.TempDir()
	must(t, unix.Mount(file, at, "ext4", unix.MS_RDONLY, ""))
	inUse(t, h, number, maps, part.name, "it is mounted at "+at)
	must(t, unix.Unmount(at, 0))

	set(t, h.dev(part.name), h.sys("block/loop9/loop/backing_file"))
	inUse(t, h, number, maps, part.name, "the loop device loop9 has it")
	must(t, os.RemoveAll(h.sys("block/loop9")))

	sleep := exec.CommandContext(t.Context(), "sleep", "infinity")
	f, err := os.Open(h.dev(part.name))
	must(t, err)
	sleep.Stdin = f
	must(t, sleep.Start(), f.Close())
	inUse(t, h, number, maps, part.name, fmt.Sprintf("process %d has it open", sleep.Process.Pid))
	must(t, sleep.Process.Kill())
	_ = sleep.Wait()
}
