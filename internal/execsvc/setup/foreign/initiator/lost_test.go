package initiator

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/roottest"
)

// TestLostPartition: a lost disk is in use if a partition of it is, or if that can't be found out.
func TestLostPartition(t *testing.T) {
	roottest.Need(t, "mknod")
	// No driver has this major number: the disk can't be opened.
	const diskNumber, partNumber = "511:0", "511:1"
	for name, tc := range map[string]struct {
		change func(t *testing.T, h *Host)
		want   string
	}{
		"unused":             {func(*testing.T, *Host) {}, ""},
		"mounted":            {func(t *testing.T, h *Host) { process(t, h, "7", "/mnt", partNumber) }, "it is mounted at /mnt of process 7"},
		"the disk mounted":   {func(t *testing.T, h *Host) { process(t, h, "7", "/mnt", diskNumber) }, "it is mounted at /mnt of process 7"},
		"mounted, in sysfs":  {func(t *testing.T, h *Host) { dir(t, h.sys("fs/ext4/sda1")) }, "a mount in another namespace"},
		"btrfs, in sysfs":    {func(t *testing.T, h *Host) { dir(t, h.sys("fs/btrfs/1234/devices/sda1")) }, "a mount in another namespace"},
		"swap":               {func(t *testing.T, h *Host) { swaps(t, h, h.dev("sda1")) }, "the disk sda1 is in use: the kernel swaps to it"},
		"swap, removed":      {func(t *testing.T, h *Host) { swaps(t, h, `/dev/sda\040(deleted)`) }, "the disk sda is in use: the kernel swaps to it"},
		"swap, by a link":    {func(t *testing.T, h *Host) { must(t, os.Symlink("sda", h.dev("x"))); swaps(t, h, h.dev("x")) }, "the kernel swaps to it"},
		"swap elsewhere":     {func(t *testing.T, h *Host) { swaps(t, h, "/dev/null") }, ""},
		"mapped":             {func(t *testing.T, h *Host) { dir(t, h.sys("block/sda/sda1/holders/dm-3")) }, "the disk sda1 is in use: dm-3 has it"},
		"a loop device's":    {func(t *testing.T, h *Host) { file(t, h.sys("block/loop0/loop/backing_file"), h.dev("sda1")) }, "the disk sda1 is in use: the loop device loop0"},
		"without its number": {func(t *testing.T, h *Host) { must(t, os.Remove(h.sys("block/sda/sda1/dev"))) }, "its number isn't known"},
		"an empty number":    {func(t *testing.T, h *Host) { file(t, h.sys("block/sda/sda1/dev"), "") }, "its number isn't known"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &Host{Sys: t.TempDir(), Dev: t.TempDir(), Proc: t.TempDir()}
			file(t, h.sys("block/sda/dev"), diskNumber)
			file(t, h.sys("block/sda/device/state"), lostState)
			file(t, h.sys("block/sda/sda1/dev"), partNumber)
			file(t, h.sys("block/sda/sda1/partition"), "1")
			dir(t, h.sys("block/sda/holders"))
			dir(t, h.sys("block/sda/sda1/holders"))
			must(t, unix.Mknod(h.dev("sda"), unix.S_IFBLK|0o600, int(unix.Mkdev(511, 0))))
			process(t, h, "self", "/", "8:1")
			process(t, h, "1", "/", "8:1")
			tc.change(t, h)
			err := h.flush("sda")
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestLostMultipath: a multipath device whose paths are all lost is as a lost disk, though it can be opened. With one path, it is written.
func TestLostMultipath(t *testing.T) {
	roottest.Need(t, "loop devices")
	for name, tc := range map[string]struct {
		change func(t *testing.T, h *Host)
		want   string
		writes bool
	}{
		"lost":          {func(*testing.T, *Host) {}, "", false},
		"one path":      {func(t *testing.T, h *Host) { file(t, h.sys("block/sdb/device/state"), "running") }, "", true},
		"no path":       {func(t *testing.T, h *Host) { must(t, os.RemoveAll(h.sys("block/dm-0/slaves"))) }, "", true},
		"a map mounted": {func(t *testing.T, h *Host) { process(t, h, "7", "/mnt", "511:9") }, "the disk dm-1 is in use: it is mounted at /mnt", false},
	} {
		t.Run(name, func(t *testing.T) {
			backing := filepath.Join(t.TempDir(), "disk")
			must(t, os.WriteFile(backing, make([]byte, 1<<20), 0o600))
			out, err := exec.CommandContext(t.Context(), "losetup", "--find", "--show", backing).CombinedOutput()
			if err != nil {
				roottest.Able(t, fmt.Errorf("losetup: %w: %s", err, out))
			}
			loop := strings.TrimSpace(string(out))
			t.Cleanup(func() { _ = exec.Command("losetup", "--detach", loop).Run() })
			f, err := os.OpenFile(loop, os.O_RDWR, 0)
			must(t, err)
			defer f.Close() // It keeps what isn't written in memory.
			_, err = f.WriteString("data")
			must(t, err)

			h := &Host{Sys: t.TempDir(), Dev: t.TempDir(), Proc: t.TempDir()}
			for _, path := range []string{"sda", "sdb"} {
				file(t, h.sys("block/dm-0/slaves", path), "")
				file(t, h.sys("block", path, "device/state"), lostState)
			}
			var st unix.Stat_t
			must(t, unix.Stat(loop, &st))
			file(t, h.sys("block/dm-0/dev"), fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev)))
			must(t, unix.Mknod(h.dev("dm-0"), unix.S_IFBLK|0o600, int(st.Rdev)))
			process(t, h, "self", "/", "8:1")
			process(t, h, "1", "/", "8:1")
			tc.change(t, h)
			var maps []device
			if tc.want != "" {
				must(t, unix.Mknod(h.dev("dm-1"), unix.S_IFBLK|0o600, int(unix.Mkdev(511, 9))))
				maps = []device{{"dm-1", "511:9", h.sys("block/dm-1")}}
			}
			err = h.flush("dm-0", maps...)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v", err)
			}
			data, err := os.ReadFile(backing)
			if written := strings.HasPrefix(string(data), "data"); err != nil || written != tc.writes {
				t.Errorf("written %v, %v", written, err)
			}
		})
	}
}

func swaps(t *testing.T, h *Host, name string) {
	t.Helper()
	file(t, h.proc("swaps"), "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"+name+"  partition\t1048572\t\t0\t\t-2")
}

// process makes a process with one mount, in a namespace of its own.
func process(t *testing.T, h *Host, pid, at, number string) {
	t.Helper()
	dir(t, h.proc(pid+"/fd"))
	dir(t, h.proc(pid+"/ns"))
	must(t, os.Symlink("mnt:["+pid+"]", h.proc(pid+"/ns/mnt")))
	file(t, h.proc(pid+"/mountinfo"), fmt.Sprintf("20 1 %s / %s rw,relatime shared:1 - ext4 /dev/x rw", number, at))
}

func dir(t *testing.T, path string) {
	t.Helper()
	must(t, os.MkdirAll(path, 0o750))
}

func file(t *testing.T, path, text string) {
	t.Helper()
	dir(t, filepath.Dir(path))
	must(t, os.WriteFile(path, []byte(text+"\n"), 0o600))
}
