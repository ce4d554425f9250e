package iscsi

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
)

// part is a device of a partition: the kernel's, or a map.
type part struct {
	*bench
	name, dir string
	// disk is its loop device.
	disk string
}

// newPart makes the device in that directory of sysfs.
func (b *bench) newPart(name, dir string) *part {
	b.t.Helper()
	p := &part{b, name, dir, loop(b.t)}
	number := numberOf(b.t, p.disk)
	must(b.t, os.MkdirAll(filepath.Join(dir, "holders"), 0o750))
	p.set("dev", fmt.Sprintf("%d:%d", unix.Major(number), unix.Minor(number)))
	must(b.t, unix.Mknod(b.path("dev", name), unix.S_IFBLK|0o600, int(number)))
	return p
}

// set sets an attribute.
func (p *part) set(name, value string) {
	p.t.Helper()
	must(p.t, os.MkdirAll(filepath.Dir(filepath.Join(p.dir, name)), 0o750))
	must(p.t, os.WriteFile(filepath.Join(p.dir, name), []byte(value+"\n"), 0o600))
}

// mkfs makes a file system.
func mkfs(t *testing.T, device string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "mkfs.ext4", "-q", device).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// isInUse checks that the volume isn't detached.
func (b *bench) isInUse(v volume, want string) {
	b.t.Helper()
	err := b.Unstage(b.t.Context(), v.Staging)
	if storage.OutcomeOf(err) != storage.Uncertain || !strings.Contains(err.Error(), want) {
		b.t.Errorf("%v; want %q", err, want)
	}
	if _, deletes := b.written(); len(deletes) > 0 || !b.hasSession(portal1) {
		b.t.Errorf("%q are removed", deletes)
	}
}

func block(change ...func(*v1.ISCSIPersistentVolumeSource)) *v1.PersistentVolume {
	p := pv(1, change...)
	p.Spec.VolumeMode = ptr.To(v1.PersistentVolumeBlock)
	return p
}

// claimed mounts the device in a namespace of its own, until the test's end: no other call can claim it.
func claimed(t *testing.T, device string) {
	t.Helper()
	mkfs(t, device)
	cmd := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c", "mount "+device+" /mnt && echo && read x")
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	_, err = out.Read(make([]byte, 1))
	must(t, err)
}

// TestPartitionMaps: the maps that kpartx makes of the partitions that a pod has written go with the multipath device, if nothing uses
// them. Other maps of it stay, and so does it.
func TestPartitionMaps(t *testing.T) {
	b := newBench(t, 1)
	b.addPortal(portal2)
	b.mapped, b.mapping = 2, loop(t)
	v := b.persistent("u1", block(func(s *v1.ISCSIPersistentVolumeSource) { s.Portals = []string{portal2} }), false)
	b.up(v)
	must(t, b.Unpublish(t.Context(), v.pub))
	p := b.newPart("dm-1", b.path("sys/block/dm-1"))
	p.set("slaves/dm-0", "")
	must(t, os.WriteFile(b.path("sys/block/dm-0/holders/dm-1"), nil, 0o600))
	script, err := os.ReadFile(b.path("bin/multipath"))
	must(t, err)
	script = fmt.Appendf(script, "rm -r %s %s\n", p.dir, b.path("dev/dm-1"))
	must(t, os.WriteFile(b.path("bin/multipath"), script, 0o755))
	p.set("dm/uuid", "LVM-1")
	b.isInUse(v, "the disk dm-0 is in use: dm-1 has it")
	p.set("dm/uuid", "part1-mpath-1")
	use, err := os.Open(b.path("dev/dm-1"))
	must(t, err)
	b.isInUse(v, fmt.Sprintf("the disk dm-1 is in use: process %d has it open", os.Getpid()))
	must(t, use.Close())
	// As device mapper claims it for the map.
	claimed(t, b.mapping)
	must(t, b.Unstage(t.Context(), v.Staging))
	b.nothing()
	if exists(b.path("sys/block/dm-0")) {
		t.Error("the multipath device is left")
	}
}

// TestPartitions: a disk isn't removed while something uses a partition of it. Partitions that nothing uses go with it.
func TestPartitions(t *testing.T) {
	b := newBench(t, 1)
	v := b.persistent("u1", block(), false)
	b.up(v)
	must(t, b.Unpublish(t.Context(), v.pub))
	unit, err := filepath.EvalSymlinks(b.path("sys/block/sda/device"))
	must(t, err)
	p := b.newPart("sda1", filepath.Join(unit, "block/sda/sda1"))
	p.set("partition", "1")
	p.set("holders/dm-9", "")
	b.isInUse(v, "the disk sda1 is in use: dm-9 has it")
	must(t, os.Remove(filepath.Join(p.dir, "holders/dm-9")))

	// A disk that the kernel has given up.
	number, err := os.ReadFile(filepath.Join(unit, "block/sda/dev"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(unit, "state"), []byte("transport-offline\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(unit, "block/sda/dev"), []byte("240:524288\n"), 0o600))
	must(t, os.Rename(b.path("dev/sda"), b.path("sda")))
	must(t, unix.Mknod(b.path("dev/sda"), unix.S_IFBLK|0o600, int(unix.Mkdev(240, 524288))))
	mounted := b.path("sys/fs/ext4/sda1")
	must(t, os.MkdirAll(mounted, 0o750))
	b.isInUse(v, "the disk sda1 is in use: a mount in another namespace")
	must(t, os.Remove(mounted))
	claimed(t, p.disk)
	b.isInUse(v, "the disk sda1 is in use: it is mounted at /mnt of process")
	must(t, os.WriteFile(filepath.Join(unit, "block/sda/dev"), number, 0o600))
	must(t, os.Rename(b.path("sda"), b.path("dev/sda")))

	must(t, b.Unstage(t.Context(), v.Staging))
	must(t, os.Remove(b.path("dev/sda1")))
	b.nothing()
}
