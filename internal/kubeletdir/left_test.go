package kubeletdir

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/roottest"
)

// TestLeftVolumes: a directory that another agent's volumes of CSI drivers are in isn't taken, also for adoption: podexecd would
// neither unstage them nor list them in volumesInUse. Those of its own next start are its own.
func TestLeftVolumes(t *testing.T) {
	for name, path := range map[string]string{
		"staged":           "plugins/kubernetes.io/csi/d.example.com/0a1b",
		"a staged device":  "plugins/kubernetes.io/csi/volumeDevices/staging/pv",
		"a device":         "plugins/kubernetes.io/csi/volumeDevices/publish/pv",
		"a pod's":          "pods/a/volumes/kubernetes.io~csi/pv/vol_data.json",
		"its mount":        "pods/a/volumes/kubernetes.io~csi/pv/mount/file",
		"the device's map": "pods/a/volumeDevices/kubernetes.io~csi/pv/file",
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.cfg.Adopt = true
			left := n.mkdir(n.cfg.Path + "/" + path)
			place, _, _ := strings.Cut(strings.TrimSuffix(left, "/vol_data.json"), "/pv/")
			n.refused(place, " is of a volume", "drain the node")
			if err := os.Remove(left); err != nil {
				t.Fatal(err)
			}
			n.open().Close()
			n.mkdir(left)
			n.open()
		})
	}
}

// inTreePods and inTreeStaged have a place of each of the kubelet's own plugins for volumes that aren't ephemeral, of a FlexVolume, and of
// a plugin that newer kubelets lack. directory is set if a file system is mounted there, otherwise it is a device.
var inTreePods, inTreeStaged = []struct {
	path      string
	directory bool
}{
	{"pods/a/volumes/kubernetes.io~nfs/data", true},
	{"pods/a/volumes/kubernetes.io~local-volume/pv", true},
	{"pods/a/volumes/kubernetes.io~iscsi/pv", true},
	{"pods/a/volumes/kubernetes.io~fc/pv", true},
	{"pods/a/volumes/kubernetes.io~rbd/pv", true},
	{"pods/a/volumes/example.com~flex/pv", true},
	{"pods/a/volumeDevices/kubernetes.io~local-volume/pv", false},
	{"pods/a/volumeDevices/kubernetes.io~iscsi/pv", false},
	{"pods/a/volumeDevices/kubernetes.io~fc/pv", false},
}, []struct {
	path      string
	directory bool
}{
	{"plugins/kubernetes.io/iscsi/iface-default/192.0.2.1:3260-iqn.2001-04.com.example:storage-lun-1", true},
	{"plugins/kubernetes.io/iscsi/volumeDevices/iface-default/192.0.2.1:3260-iqn.2001-04.com.example:storage-lun-1/a", false},
	{"plugins/kubernetes.io/local-volume/mounts/pv", true},
	{"plugins/kubernetes.io~local-volume/volumeDevices/pv/a", false},
	{"plugins/kubernetes.io/fc/50060e801049cfd1-lun-0", true},
	{"plugins/kubernetes.io/fc/volumeDevices/50060e801049cfd1-lun-0/a", false},
	{"plugins/kubernetes.io/rbd/mounts/pool-image-a", true},
	{"plugins/kubernetes.io/flexvolume/example.com/flex/mounts/pv", true},
}

// TestLeftInTree: so it is with volumes of other plugins. An empty directory isn't one, as nothing is mounted there.
func TestLeftInTree(t *testing.T) {
	for _, row := range slices.Concat(inTreePods, inTreeStaged) {
		t.Run(row.path, func(t *testing.T) {
			n := newNode(t)
			n.cfg.Adopt = true
			left := n.cfg.Path + "/" + row.path
			if !row.directory {
				n.mkdir(filepath.Dir(left))
				if err := os.Symlink("/dev/null", left); err != nil {
					t.Fatal(err)
				}
				n.refused(left + " is of a volume")
				if err := os.Remove(left); err != nil {
					t.Fatal(err)
				}
				touch(t, left)
			} else {
				touch(t, n.mkdir(left)+"/iscsi.json")
			}
			n.refused(left, " is of a volume")
			if err := os.RemoveAll(left); err != nil {
				t.Fatal(err)
			}
			if row.directory {
				n.mkdir(left)
			}
			n.open()
		})
	}
}

// TestLeftMounts: a volume that is mounted is found, whatever is mounted: also nothing but an empty directory.
func TestLeftMounts(t *testing.T) {
	for _, row := range append(slices.Concat(inTreePods, inTreeStaged), []struct {
		path      string
		directory bool
	}{
		{"plugins/kubernetes.io/csi/d.example.com/0a1b/globalmount", true},
		{"plugins/kubernetes.io/csi/volumeDevices/staging/pv", true},
		{"plugins/kubernetes.io/csi/volumeDevices/publish/pv/a", false},
		{"plugins/kubernetes.io/csi/volumeDevices/pv/dev/a", false},
		{"pods/a/volumes/kubernetes.io~csi/pv/mount", true},
	}...) {
		t.Run(row.path, func(t *testing.T) {
			n := newNode(t)
			n.cfg.Adopt = true
			n.mkdir(n.cfg.Path + "/plugins")
			left := n.cfg.Path + "/" + row.path
			if row.directory {
				bind(t, t.TempDir(), n.mkdir(left))
			} else {
				n.mkdir(filepath.Dir(left))
				touch(t, left)
				bind(t, "/dev/null", left)
			}
			n.refused(" is of a volume", n.cfg.Path)
			// A kubelet that ran after this podexecd: its volumes are found by the next adoption.
			if err := CheckVolumes(n.cfg.Path, Recorded{}); err == nil || !strings.Contains(err.Error(), "is of a volume") {
				t.Errorf("CheckVolumes: %v; want an error", err)
			}
		})
	}
}

// TestNoLeftVolumes: what the kubelet leaves on a drained node is no volume, and neither is what ends with a pod.
func TestNoLeftVolumes(t *testing.T) {
	n := newNode(t)
	n.cfg.Adopt = true
	for _, path := range []string{
		"plugins/kubernetes.io/csi/d.example.com", "plugins/kubernetes.io/csi/volumeDevices/staging", "plugins/kubernetes.io/csi/volumeDevices/publish",
		"plugins/kubernetes.io/iscsi/iface-default", "plugins/kubernetes.io/local-volume/mounts", "plugins/kubernetes.io~local-volume/volumeDevices/pv",
		"plugins/kubernetes.io/empty-dir", "pods/a/volumes/kubernetes.io~nfs", "pods/a/volumeDevices",
	} {
		n.mkdir(n.cfg.Path + "/" + path)
	}
	for _, path := range []string{
		"plugins/d.example.com/data", "pods/a/plugins/kubernetes.io~empty-dir/tmp", "pods/a/volumes/kubernetes.io~empty-dir/tmp",
		"pods/a/volumes/kubernetes.io~configmap/c", "pods/a/volumes/kubernetes.io~secret/s", "pods/a/volumes/kubernetes.io~projected/p",
		"pods/a/volumes/kubernetes.io~downward-api/d", "pods/a/volumes/kubernetes.io~git-repo/g", "pods/a/containers/app",
	} {
		touch(t, n.mkdir(n.cfg.Path+"/"+path)+"/file")
	}
	touch(t, n.cfg.Path+"/pods/file")
	socket(t, n.mkdir(n.cfg.Path+"/plugins/kubernetes.io/driver")+"/s")
	for _, path := range []string{"pods/a/volumes/kubernetes.io~secret/s", "plugins/d.example.com/data", "plugins/kubernetes.io/csi/d.example.com"} {
		bind(t, t.TempDir(), n.cfg.Path+"/"+path)
	}
	if err := CheckVolumes(n.cfg.Path, Recorded{}); err != nil {
		t.Error(err)
	}
}

func bind(t *testing.T, source, target string) {
	t.Helper()
	roottest.Need(t, "mounting")
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(target, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// socket makes a socket's file. Its path may be longer than that of an address.
func socket(t *testing.T, path string) {
	t.Helper()
	if err := unix.Mknod(path, unix.S_IFSOCK|0o600, 0); err != nil {
		t.Fatal(err)
	}
}

// TestUnknownVolumes: a link, and more names than are read, may hide volumes.
func TestUnknownVolumes(t *testing.T) {
	n := newNode(t)
	n.cfg.Adopt = true
	n.mkdir(n.cfg.Path + "/elsewhere/pv")
	link := n.mkdir(n.cfg.Path+"/pods/a/volumes") + "/kubernetes.io~csi"
	if err := os.Symlink(n.cfg.Path+"/elsewhere", link); err != nil {
		t.Fatal(err)
	}
	n.refused("it can't be told", link)
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	many := n.mkdir(n.cfg.Path + "/plugins/kubernetes.io/csi")
	for i := range maxNames {
		touch(t, fmt.Sprintf("%s/%d", many, i))
	}
	touch(t, many+"/last")
	n.refused(many, "more than")
	if err := os.Remove(many + "/last"); err != nil {
		t.Fatal(err)
	}
	n.open()
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestTooManyVolumes: the names that are read have a bound also if no directory has many.
func TestTooManyVolumes(t *testing.T) {
	n := newNode(t)
	n.open()
	n.mkdir(n.cfg.Path + "/pods/a/volumes/kubernetes.io~nfs")
	s := newSearch(PodsDir(n.cfg.Path))
	s.room = 2
	for _, uid := range []string{"a", "a/volumes"} {
		if _, err := s.list(uid); err != nil {
			t.Fatal(err)
		}
	}
	touch(t, n.cfg.Path+"/pods/a/volumes/kubernetes.io~nfs/one")
	if _, err := s.list("a/volumes/kubernetes.io~nfs"); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("the error is %v; want one about the number of files", err)
	}
	deep := n.mkdir(n.cfg.Path + "/plugins/kubernetes.io" + strings.Repeat("/d", maxDepth+2))
	if err := leftVolumes(n.cfg.Path); err == nil || !strings.Contains(err.Error(), filepath.Dir(filepath.Dir(deep))) {
		t.Errorf("the error is %v; want one about a directory that is too deep", err)
	}
}

// TestCheckVolumes: volumes without a record are found, also of a pod that has a record of another one, and mounts that are recorded aren't.
func TestCheckVolumes(t *testing.T) {
	n := newNode(t)
	n.open()
	recorded := Recorded{Pods: map[PodVolume]bool{}}
	for _, plugin := range []string{"csi", "nfs", "iscsi", "local-volume"} {
		for _, kind := range []string{"volumes", "volumeDevices"} {
			touch(t, n.mkdir(n.cfg.Path+"/pods/mine/"+kind+"/kubernetes.io~"+plugin+"/pv")+"/file")
		}
		recorded.Pods[PodVolume{"mine", "kubernetes.io/" + plugin, "pv"}] = true
	}
	bind(t, t.TempDir(), n.cfg.Path+"/pods/mine/volumes/kubernetes.io~nfs/pv")
	for _, path := range []string{"kubernetes.io/csi/d.example.com/0a1b/globalmount", "kubernetes.io/iscsi/iface-default/disk"} {
		bind(t, t.TempDir(), n.mkdir(n.cfg.Path+"/plugins/"+path))
		if err := CheckVolumes(n.cfg.Path, recorded); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("the error is %v; want one that names %s", err, path)
		}
		recorded.Staged = append(recorded.Staged, strings.TrimSuffix(path, "/globalmount"))
		if err := CheckVolumes(n.cfg.Path, recorded); err != nil {
			t.Error(err)
		}
	}
	n.mkdir(n.cfg.Path + "/pods/without/volumes/kubernetes.io~csi")
	n.mkdir(n.cfg.Path + "/pods/without/volumes/kubernetes.io~nfs/empty")
	// podexecd's own, of a volume that it has unpublished, or that the driver refused.
	n.mkdir(n.cfg.Path + "/pods/without/volumes/kubernetes.io~csi/unpublished")
	n.mkdir(n.cfg.Path + "/pods/without/volumes/kubernetes.io~csi/mount/mount")
	n.mkdir(n.cfg.Path + "/pods/without/volumeDevices/kubernetes.io~csi/refused")
	// What an earlier call of this podexecd left is no mount.
	touch(t, n.mkdir(n.cfg.Path+"/plugins/kubernetes.io/csi/d.example.com/1b2c")+"/vol_data.json")
	if err := CheckVolumes(n.cfg.Path, recorded); err != nil {
		t.Error(err)
	}
	for _, path := range []string{
		"/pods/b/volumes/kubernetes.io~csi/pv", "/pods/c/volumeDevices/kubernetes.io~csi/pv", "/pods/mine/volumes/kubernetes.io~csi/other",
	} {
		left := n.mkdir(n.cfg.Path + path)
		touch(t, left+"/vol_data.json")
		if err := CheckVolumes(n.cfg.Path, recorded); err == nil || !strings.Contains(err.Error(), left) {
			t.Errorf("the error is %v; want one that names %s", err, left)
		}
		if err := os.RemoveAll(left); err != nil {
			t.Fatal(err)
		}
	}
}
