package initiator

import (
	"fmt"
	"os"
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
