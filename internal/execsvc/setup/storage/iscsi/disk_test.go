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
	"github.com/podstream/podstream/internal/execsvc/setup/storage/blockdevice"
)

// TestNotBlank: only a disk without any content is formatted.
func TestNotBlank(t *testing.T) {
	b := newBench(t, 1)
	v, reader := b.persistent("u1", pv(1), false), b.persistent("u2", pv(1), true)
	const size = 16 << 20
	for name, tc := range map[string]struct {
		at   int64
		data string
		v    volume
		want string
	}{
		"data at the beginning":       {100, "x", v, "it has content"},
		"data at the end":             {size - 1, "x", v, "it has content"},
		"a table of partitions":       {510, "\x55\xaa", v, "other content than a file system"},
		"a file system of no version": {1080, "\x53\xef", v, "failed to mount"},
		"blank, and read-only":        {0, "\x00", reader, "failed to mount"},
	} {
		zero(t, b.luns[1], size)
		f, err := os.OpenFile(b.luns[1], os.O_RDWR, 0)
		must(t, err)
		if name == "a table of partitions" {
			// A partition, without which it isn't one.
			_, err = f.WriteAt([]byte{0, 0, 1, 0, 0x83, 0, 1, 0, 1, 0, 0, 0, 0, 8, 0, 0}, 446)
			must(t, err)
		}
		_, err = f.WriteAt([]byte(tc.data), tc.at)
		must(t, err)
		must(t, f.Sync())
		must(t, f.Close())
		before := sum(t, b.luns[1])
		err = b.Stage(t.Context(), tc.v.Staging)
		if storage.OutcomeOf(err) != storage.Final || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v (outcome %d)", name, err, storage.OutcomeOf(err))
		}
		if after := sum(t, b.luns[1]); after != before {
			t.Errorf("%s: the disk was changed", name)
		}
		b.nothing()
	}
}

func zero(t *testing.T, device string, size int) {
	t.Helper()
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	must(t, err)
	_, err = f.Write(make([]byte, size))
	must(t, err)
	must(t, f.Sync())
	must(t, f.Close())
}

func sum(t *testing.T, device string) string {
	t.Helper()
	out, err := exec.Command("sha256sum", device).Output()
	must(t, err)
	return string(out)
}

// TestOtherDisk: what isn't the disk of the session isn't formatted, whatever lies in /dev.
func TestOtherDisk(t *testing.T) {
	b := newBench(t, 1)
	other := loop(t)
	var st unix.Stat_t
	must(t, unix.Stat(other, &st))
	v := b.persistent("u1", pv(1), false)
	must(t, b.Stage(t.Context(), v.Staging))
	var args stageArgs
	must(t, decode(v.Staging.Args, &args))
	must(t, unix.Unmount(args.target(), 0))
	must(t, os.Remove(b.path("dev/sda")))
	must(t, unix.Mknod(b.path("dev/sda"), unix.S_IFBLK|0o600, int(st.Rdev)))
	before := sum(t, other)
	err := b.Stage(t.Context(), v.Staging)
	if err == nil || !strings.Contains(err.Error(), "isn't the block device") || sum(t, other) != before {
		t.Errorf("error %v", err)
	}
	if _, deletes := b.written(); len(deletes) > 0 {
		t.Errorf("%q are removed", deletes)
	}
	must(t, os.Remove(b.path("dev/sda")))
	must(t, unix.Stat(b.luns[1], &st))
	must(t, unix.Mknod(b.path("dev/sda"), unix.S_IFBLK|0o600, int(st.Rdev)))
	// A pod that is published meanwhile doesn't get the directory below.
	if err := b.Publish(t.Context(), v.pub); err == nil || !strings.Contains(err.Error(), "isn't mounted") {
		t.Errorf("error %v", err)
	}
	b.down(v)
	b.nothing()
}

// TestInUse: a disk that something uses stays, and so does its session. What uses it is named.
func TestInUse(t *testing.T) {
	b := newBench(t, 1)
	v := b.persistent("u1", pv(1), false)
	must(t, b.Stage(t.Context(), v.Staging))
	var args stageArgs
	must(t, decode(v.Staging.Args, &args))
	elsewhere := t.TempDir()
	for _, tc := range []struct {
		want string
		use  func() (end func())
	}{
		{"it is mounted at " + elsewhere, func() func() {
			must(t, unix.Mount(args.target(), elsewhere, "", unix.MS_BIND, ""))
			return func() { must(t, unix.Unmount(elsewhere, 0)) }
		}},
		{fmt.Sprintf("process %d has it open", os.Getpid()), func() func() {
			f, err := os.Open(b.path("dev/sda"))
			must(t, err)
			return func() { must(t, f.Close()) }
		}},
		{"in another namespace", func() func() {
			cmd := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c", "echo; read x")
			in, err := cmd.StdinPipe()
			must(t, err)
			out, err := cmd.StdoutPipe()
			must(t, err)
			must(t, cmd.Start())
			_, err = out.Read(make([]byte, 1))
			must(t, err)
			return func() { must(t, in.Close()); _ = cmd.Wait() }
		}},
		{"dm-7 has it", func() func() {
			must(t, os.WriteFile(b.path("sys/block/sda/holders/dm-7"), nil, 0o600))
			return func() { must(t, os.Remove(b.path("sys/block/sda/holders/dm-7"))) }
		}},
	} {
		end := tc.use()
		err := b.Unstage(t.Context(), v.Staging)
		if storage.OutcomeOf(err) != storage.Uncertain || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v; want %q", err, tc.want)
		}
		if _, deletes := b.written(); len(deletes) > 0 || !b.hasSession(portal1) || !b.hasNode(portal1) {
			t.Errorf("%s: %q are removed", tc.want, deletes)
		}
		end()
		must(t, b.Stage(t.Context(), v.Staging))
	}
	b.down(v)
	b.nothing()
}

// TestLostDisk: a disk that the kernel has given up can't be opened. It is removed, and its session ends, if it isn't mounted anywhere.
func TestLostDisk(t *testing.T) {
	b := newBench(t, 1)
	v := b.persistent("u1", pv(1), false)
	must(t, b.Stage(t.Context(), v.Staging))
	var args stageArgs
	must(t, decode(v.Staging.Args, &args))
	must(t, unix.Unmount(args.target(), 0))
	// A number that no disk of this machine has.
	unit, err := filepath.EvalSymlinks(b.path("sys/block/sda/device"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(unit, "block/sda/dev"), []byte("240:524288\n"), 0o600))
	must(t, os.Remove(b.path("dev/sda")))
	must(t, unix.Mknod(b.path("dev/sda"), unix.S_IFBLK|0o600, int(unix.Mkdev(240, 524288))))
	mounted := b.path("sys/fs/ext4/sda")
	must(t, os.MkdirAll(mounted, 0o750))
	for state, want := range map[string]string{"running": "no such device", "transport-offline": "a mount in another namespace"} {
		must(t, os.WriteFile(filepath.Join(unit, "state"), []byte(state+"\n"), 0o600))
		if err := b.Unstage(t.Context(), v.Staging); storage.OutcomeOf(err) != storage.Uncertain || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v (outcome %d)", state, err, storage.OutcomeOf(err))
		}
	}
	if _, deletes := b.written(); len(deletes) > 0 || !b.hasSession(portal1) {
		t.Errorf("%q are removed", deletes)
	}
	must(t, os.WriteFile(filepath.Join(unit, "state"), []byte("transport-offline\n"), 0o600))
	must(t, os.Remove(mounted))
	b.down(v)
	b.nothing()
}

// TestOtherUnit: a session isn't ended while the machine's owner uses another of its disks, and is by the next volume's end.
func TestOtherUnit(t *testing.T) {
	b := newBench(t, 1, 2)
	v := b.persistent("u1", pv(1), false)
	must(t, b.Stage(t.Context(), v.Staging))
	must(t, os.WriteFile(b.path("sys/class/scsi_host/host1/scan"), []byte("0 0 2"), 0))
	waitFor(t, func() bool { return exists(b.path("dev/sdb")) })
	hold, err := os.Open(b.path("dev/sdb"))
	must(t, err)
	b.down(v)
	if _, deletes := b.written(); strings.Join(deletes, " ") != "sda" || !b.hasSession(portal1) || !b.hasNode(portal1) {
		t.Errorf("%q are removed", deletes)
	}
	if !strings.Contains(b.log.String(), "isn't ended") {
		t.Errorf("the log: %s", b.log.String())
	}
	must(t, hold.Close())
	b.start("boot")
	b.up(v)
	b.down(v)
	if b.hasSession(portal1) || b.hasNode(portal1) {
		t.Error("the session is left")
	}
}

func waitFor(t *testing.T, is func() bool) {
	t.Helper()
	for !is() {
		if t.Context().Err() != nil {
			t.Fatal("it doesn't come")
		}
		_ = unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil)
	}
}

// TestDevice: a block volume is held and linked for each pod, where the kubelet links it, and isn't formatted.
func TestDevice(t *testing.T) {
	b := newBench(t, 1)
	block := pv(1)
	block.Spec.VolumeMode = ptr.To(v1.PersistentVolumeBlock)
	v := b.persistent("u1", block, false)
	before := sum(t, b.luns[1])
	for range 2 {
		b.up(v)
	}
	global := filepath.Join(b.kubelet, "plugins/kubernetes.io/iscsi/volumeDevices/iface-default", portal1+"-"+target+"-lun-1")
	for _, link := range []string{v.pub.Dir, filepath.Join(global, "u1")} {
		if to, err := os.Readlink(link); err != nil || to != b.path("dev/sda") {
			t.Errorf("%s: %q, %v", link, to, err)
		}
	}
	must(t, b.CheckDevice(v.pub))
	if _, is, err := blockdevice.Held(tag(&v.pub)); err != nil || !is {
		t.Errorf("it isn't held: %v", err)
	}
	if err := b.Unstage(t.Context(), v.Staging); err == nil {
		t.Error("it is detached while a pod has it")
	}
	must(t, b.Unpublish(t.Context(), v.pub))
	if err := b.CheckDevice(v.pub); err == nil {
		t.Error("a device that isn't published can be used")
	}
	b.down(v)
	b.nothing()
	if exists(global) || sum(t, b.luns[1]) != before {
		t.Error("something is left, or was written")
	}
}

// TestMultipath: the multipath device of all paths is mounted, and flushed before they are removed; one with the path of another
// session isn't used.
func TestMultipath(t *testing.T) {
	b := newBench(t, 1)
	b.addPortal(portal2)
	b.mapped = 2
	v := b.persistent("u1", pv(1, func(s *v1.ISCSIPersistentVolumeSource) { s.Portals = []string{portal2} }), false)
	b.up(v)
	table, err := os.ReadFile("/proc/self/mounts")
	must(t, err)
	if !strings.Contains(string(table), b.path("dev/dm-0")+" "+v.pub.Dir) {
		t.Errorf("it isn't mounted:\n%s", table)
	}
	must(t, b.Unpublish(t.Context(), v.pub))
	must(t, os.WriteFile(b.path("sys/block/dm-0/slaves/sdz"), nil, 0o600))
	if err := b.Unstage(t.Context(), v.Staging); err == nil || !strings.Contains(err.Error(), "has the path sdz") {
		t.Errorf("error %v", err)
	}
	must(t, os.Remove(b.path("sys/block/dm-0/slaves/sdz")))
	b.down(v)
	b.nothing()
	if exists(b.path("sys/block/dm-0")) {
		t.Error("the multipath device is left")
	}
}

// TestOnePath: a volume with a portal that doesn't answer is mounted by the other one.
func TestOnePath(t *testing.T) {
	b := newBench(t, 1)
	v := b.persistent("u1", pv(1, func(s *v1.ISCSIPersistentVolumeSource) { s.Portals = []string{"192.0.2.9"} }), false)
	b.up(v)
	if !strings.Contains(b.log.String(), "192.0.2.9:3260") {
		t.Errorf("the log: %s", b.log.String())
	}
	b.down(v)
	b.nothing()
}

// TestNoTarget: a target that isn't there leaves nothing.
func TestNoTarget(t *testing.T) {
	b := newBench(t)
	must(t, os.Rename(b.path("down", portal1), b.path("gone")))
	v := b.persistent("u1", pv(1), false)
	err := b.Stage(t.Context(), v.Staging)
	if storage.OutcomeOf(err) != storage.Final || !strings.Contains(err.Error(), "Could not login") {
		t.Errorf("error %v (outcome %d)", err, storage.OutcomeOf(err))
	}
	b.nothing()
}
