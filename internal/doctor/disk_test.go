package doctor

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The thresholds are those that podexecd evicts by.
func TestDisk(t *testing.T) {
	thresholds := map[string]string{"nodefs.available": "10%", "nodefs.inodesFree": "5%", "imagefs.available": "1Gi"}
	state, images := place{"volumes", "/s", "nodefs"}, place{"images", "/i", "imagefs"}
	for name, tc := range map[string]struct {
		place  place
		fs     unix.Statfs_t
		state  State
		found  string
		advice string
	}{
		"room":                     {state, unix.Statfs_t{Bsize: 4096, Blocks: 100, Bavail: 11, Files: 100, Ffree: 6}, OK, "volumes /s: 11 % free, 6 % of its inodes", ""},
		"no bound of inodes":       {state, unix.Statfs_t{Bsize: 4096, Blocks: 100, Bavail: 11}, OK, "100 % of its inodes", ""},
		"read-only":                {state, unix.Statfs_t{Bsize: 4096, Blocks: 100, Bavail: 50, Flags: unix.ST_RDONLY}, Failed, "is read-only", "remount"},
		"full":                     {state, unix.Statfs_t{Bsize: 4096, Blocks: 1000, Bavail: 9}, Failed, "can't be written", "make room"},
		"no inodes":                {state, unix.Statfs_t{Bsize: 4096, Blocks: 100, Bavail: 50, Files: 1000, Ffree: 9}, Failed, "can't be written", "make room"},
		"below a percentage":       {state, unix.Statfs_t{Bsize: 4096, Blocks: 100, Bavail: 9}, Warning, "pods are evicted below nodefs.available 10%", "make room"},
		"below inodes":             {state, unix.Statfs_t{Bsize: 4096, Blocks: 100, Bavail: 50, Files: 100, Ffree: 4}, Warning, "below nodefs.inodesFree 5%", "small files"},
		"below a quantity":         {images, unix.Statfs_t{Bsize: 1 << 20, Blocks: 2000, Bavail: 1023}, Warning, "pods are evicted below imagefs.available 1Gi", "make room"},
		"above a quantity":         {images, unix.Statfs_t{Bsize: 1 << 20, Blocks: 200000, Bavail: 2048}, OK, "images /i: 1 % free", ""},
		"noexec":                   {state, unix.Statfs_t{Bsize: 4096, Blocks: 100, Bavail: 50, Flags: unix.ST_NOEXEC}, Warning, "can't run programs from emptyDir", "without noexec"},
		"noexec, which images can": {images, unix.Statfs_t{Bsize: 1 << 20, Blocks: 20000, Bavail: 2048, Flags: unix.ST_NOEXEC}, OK, "", ""},
	} {
		f := tc.place.finding(&tc.fs, thresholds)
		if f.State != tc.state || !strings.Contains(f.Found, tc.found) || !strings.Contains(f.Advice, tc.advice) || (f.Advice == "") != (tc.state == OK) {
			t.Errorf("%s: %+v; want %s, %q, %q", name, f, tc.state, tc.found, tc.advice)
		}
	}
}

// The images' file system is the one that the runtime reports.
func TestImagePlace(t *testing.T) {
	n := newNode(t)
	n.config.Podexec.Settings.EvictionHard = map[string]string{"imagefs.available": "100%"}
	if findings := Examine(t.Context(), n.config); find(findings, "disk", Warning, "pods are evicted below imagefs.available 100%") == nil {
		t.Errorf("the disk of images isn't found: %+v", findings)
	}
}

// Containers have a place of their own if the runtime reports one that isn't that of images; its thresholds are
// nodefs's.
func TestContainerPlace(t *testing.T) {
	for dir, want := range map[string]bool{"": false, "/var/lib/containerd": false, "/var/lib/containers": true} {
		n := newNode(t)
		n.containers = dir
		n.config.Podexec.Settings.EvictionHard = map[string]string{"nodefs.available": "100%"}
		found := false
		for _, f := range Examine(t.Context(), n.config) {
			found = found || f.Check == "disk" && f.State == Warning && strings.HasPrefix(f.Found, "containers ") && strings.Contains(f.Found, "below nodefs.available 100%")
		}
		if found != want {
			t.Errorf("%q: found %v", dir, found)
		}
	}
}
