package kubeletdir

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestLeftVolumes: a directory that another agent's volumes of CSI drivers are in isn't taken, also for adoption: podexecd would
// neither unstage them nor list them in volumesInUse. Those of its own next start are its own.
func TestLeftVolumes(t *testing.T) {
	for name, path := range map[string]string{
		"staged":           "plugins/kubernetes.io/csi/d.example.com/0a1b",
		"a staged device":  "plugins/kubernetes.io/csi/volumeDevices/staging/pv",
		"a device":         "plugins/kubernetes.io/csi/volumeDevices/publish/pv",
		"a pod's":          "pods/a/volumes/kubernetes.io~csi/pv",
		"the device's map": "pods/a/volumeDevices/kubernetes.io~csi/pv",
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.cfg.Adopt = true
			left := n.mkdir(n.cfg.Path + "/" + path)
			n.refused(left+" is a volume of a CSI driver", "drain the node")
			if err := os.Remove(left); err != nil {
				t.Fatal(err)
			}
			n.open().Close()
			n.mkdir(left)
			n.open()
		})
	}
}

// TestNoLeftVolumes: what the kubelet leaves on a drained node is no volume.
func TestNoLeftVolumes(t *testing.T) {
	n := newNode(t)
	n.cfg.Adopt = true
	n.mkdir(n.cfg.Path + "/plugins/kubernetes.io/csi/d.example.com")
	n.mkdir(n.cfg.Path + "/plugins/kubernetes.io/csi/volumeDevices/staging")
	n.mkdir(n.cfg.Path + "/plugins/kubernetes.io/csi/volumeDevices/publish")
	n.mkdir(n.cfg.Path + "/plugins/d.example.com/data")
	n.mkdir(n.cfg.Path + "/pods/a/volumes/kubernetes.io~empty-dir/tmp")
	touch(t, n.cfg.Path+"/pods/file")
	n.open()
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

// TestCheckVolumes: volumes of pods without a record are found.
func TestCheckVolumes(t *testing.T) {
	n := newNode(t)
	n.open()
	n.mkdir(n.cfg.Path + "/pods/mine/volumes/kubernetes.io~csi/pv")
	n.mkdir(n.cfg.Path + "/pods/without/volumes/kubernetes.io~csi")
	recorded := map[types.UID]bool{"mine": true}
	if err := CheckVolumes(n.cfg.Path, recorded); err != nil {
		t.Error(err)
	}
	for _, path := range []string{"/pods/b/volumes/kubernetes.io~csi/pv", "/pods/c/volumeDevices/kubernetes.io~csi/pv"} {
		left := n.mkdir(n.cfg.Path + path)
		if err := CheckVolumes(n.cfg.Path, recorded); err == nil || !strings.Contains(err.Error(), left) {
			t.Errorf("the error is %v; want one that names %s", err, left)
		}
		if err := os.Remove(left); err != nil {
			t.Fatal(err)
		}
	}
}
