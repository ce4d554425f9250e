//go:build iscsiguest

package iscsi_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// multipathd starts the daemon, until the test's end.
func multipathd(t *testing.T) {
	t.Helper()
	must(t, os.WriteFile("/etc/multipath.conf", []byte("defaults {\n\tfind_multipaths no\n\tuser_friendly_names no\n\tdetect_prio no\n"+
		"\tpath_grouping_policy multibus\n\tdetect_checker no\n\tpath_checker readsector0\n"+
		"\tpolling_interval 1\n\tmax_polling_interval 2\n}\n"), 0o600))
	t.Cleanup(func() { check(t, os.Remove("/etc/multipath.conf")) })
	command(t, "multipathd")
	// It may end before it has answered.
	t.Cleanup(func() { _, _ = try("multipathd", "shutdown") })
	eventually(t, 20*time.Second, func() error {
		_, err := try("multipathd", "show", "daemon")
		return err
	})
}

// source returns the device that is mounted at a directory.
func source(t *testing.T, dir string) string {
	t.Helper()
	device, err := filepath.EvalSymlinks(strings.TrimSpace(command(t, "findmnt", "--noheadings", "--output", "SOURCE", "--mountpoint", dir)))
	must(t, err)
	return device
}

// TestKernelMultipath: with multipathd, a volume with two portals has a session for each, and the device of both is mounted. One
// that is away is no loss, nor does it keep the volume.
func TestKernelMultipath(t *testing.T) {
	n := newNode(t)
	g := newTarget(t, "paths", []string{portal1, portal3}, newDisk(t, "paths"))
	multipathd(t)
	v := pv("pv", g, 0)
	v.Spec.ISCSI.Portals = []string{portal3}
	vol := n.volume("u1", v)
	must(t, vol.up())
	vol.write("file", "data")
	if got := len(disks(t)); got != 2 || g.sessions() != 2 {
		t.Errorf("%d disks, %d sessions", got, g.sessions())
	}
	if device := source(t, vol.publish.Dir); !strings.HasPrefix(device, "/dev/dm-") {
		t.Errorf("%s is mounted", device)
	}
	restore := drop(t, portal3)
	vol.write("file", "data of one path")
	vol.write("more", strings.Repeat("more", 1<<20))
	t.Logf("with one path: %v", vol.down())
	restore()
	eventually(t, 2*time.Minute, vol.down)
	n.same(n.begin)
	must(t, vol.up())
	vol.has("file", "data of one path")
	must(t, vol.down())
	n.same(n.begin)
}

// TestKernelPartitionMaps: a multipath device on which the pod has made partitions is removed with the maps of them, unless something
// uses one.
func TestKernelPartitionMaps(t *testing.T) {
	n := newNode(t)
	g := newTarget(t, "parts", []string{portal1, portal3}, newDisk(t, "parts"))
	multipathd(t)
	v := pv("pv", g, 0)
	v.Spec.VolumeMode = ptr.To(v1.PersistentVolumeBlock)
	v.Spec.ISCSI.Portals = []string{portal3}
	vol := n.volume("u1", v)
	must(t, vol.up())
	device, err := filepath.EvalSymlinks(vol.publish.Dir)
	must(t, err)
	command(t, "sh", "-c", "printf ',8MiB\\n,8MiB\\n,+,E\\n,4MiB\\n' | sfdisk "+device)
	command(t, "kpartx", "-a", "-s", device)
	maps, err := filepath.Glob(filepath.Join("/sys/block", filepath.Base(device), "holders/*"))
	must(t, err)
	if len(maps) != 4 {
		t.Fatalf("%s has the maps %q", device, maps)
	}
	use, err := os.Open(filepath.Join("/dev", filepath.Base(maps[0])))
	must(t, err)
	if err := vol.down(); err == nil || !strings.Contains(err.Error(), filepath.Base(maps[0])+" is in use") {
		t.Errorf("error %v", err)
	}
	must(t, use.Close())
	must(t, vol.down())
	n.same(n.begin)
}

// TestKernelPortals: without multipathd a volume with two portals is mounted by one of them, also while the other one is away.
func TestKernelPortals(t *testing.T) {
	n := newNode(t)
	g := newTarget(t, "portals", []string{portal1, portal3}, newDisk(t, "portals"))
	v := pv("pv", g, 0)
	v.Spec.ISCSI.Portals = []string{portal3}
	vol := n.volume("u1", v)
	must(t, vol.up())
	vol.write("file", "data")
	must(t, vol.down())
	n.same(n.begin)

	restore := drop(t, portal1)
	must(t, vol.up())
	vol.has("file", "data")
	eventually(t, 2*time.Minute, vol.down)
	restore()
	n.same(n.begin)
}

// TestKernelTwin: a disk that two targets have isn't mounted by both.
func TestKernelTwin(t *testing.T) {
	n := newNode(t)
	d := newDisk(t, "twin")
	one, two := newTarget(t, "twin-a", []string{portal1}, d), newTarget(t, "twin-b", []string{portal2}, d)
	vol, other := n.volume("u1", pv("pv0", one, 0)), n.volume("u2", pv("pv1", two, 0))
	must(t, vol.up())
	vol.write("file", "data")
	mounted := n.state()
	if err := other.up(); err == nil {
		t.Error("it is mounted twice")
	} else {
		t.Log(err)
	}
	must(t, other.down())
	n.same(mounted)
	must(t, vol.down())
	must(t, other.up())
	other.has("file", "data")
	must(t, other.down())
	n.same(n.begin)
}
