package csivolume

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/blockdevice"
	"github.com/podstream/podstream/internal/roottest"
)

// blockBench is a bench whose PersistentVolume has the mode Block.
type blockBench struct {
	*bench
	// device is a loop device of the test.
	device string
	// links has the driver publish a link to the device; otherwise the device is bound.
	links bool
}

func newBlockBench(t *testing.T, can ...csipb.NodeServiceCapability_RPC_Type) *blockBench {
	t.Helper()
	n := &blockBench{bench: newBench(t, can...), device: roottest.LoopDevice(t)}
	n.pv.Spec.VolumeMode = ptr.To(v1.PersistentVolumeBlock)
	t.Cleanup(func() {
		for range 3 {
			_ = unix.Unmount(n.published(), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		}
		_ = blockdevice.Release(n.tag())
	})
	n.driver.does(n.usual)
	return n
}

// usual makes the device available as a driver does.
func (n *blockBench) usual(request proto.Message) error {
	switch r := request.(type) {
	case *csipb.NodePublishVolumeRequest:
		if n.links {
			return os.Symlink(n.device, r.GetTargetPath())
		}
		return errors.Join(os.WriteFile(r.GetTargetPath(), nil, 0o600), unix.Mount(n.device, r.GetTargetPath(), "", unix.MS_BIND, ""))
	case *csipb.NodeUnpublishVolumeRequest:
		if n.links {
			return os.Remove(r.GetTargetPath())
		}
		return errors.Join(unix.Unmount(r.GetTargetPath(), unix.UMOUNT_NOFOLLOW), os.Remove(r.GetTargetPath()))
	}
	return nil
}

func (n *blockBench) staging() string {
	return filepath.Join(n.kubelet, "plugins/kubernetes.io/csi/volumeDevices/staging/pv-1")
}

func (n *blockBench) published() string {
	return filepath.Join(n.kubelet, "plugins/kubernetes.io/csi/volumeDevices/publish/pv-1", podUID)
}

// link is where the runtime finds the device.
func (n *blockBench) link() string {
	return filepath.Join(n.kubelet, "pods", podUID, "volumeDevices/kubernetes.io~csi/pv-1")
}

func (n *blockBench) tag() string {
	at, err := publishedDevice(n.kubelet, &storage.Publishing{UID: podUID, Name: "pv-1", Dir: n.link()})
	must(n.t, err)
	return at.tag()
}

// resolved is bench.resolved for a block volume.
func (n *blockBench) resolved(p *v1.Pod, spec *v1.Volume) (storage.Volume, storage.Staging, storage.Publishing) {
	n.t.Helper()
	v, s, pub := n.bench.resolved(p, spec)
	pub.Dir, pub.Device = n.link(), v.Device
	return v, s, pub
}

// leadsTo checks the link in the pod's directory.
func (n *blockBench) leadsTo(want string) {
	n.t.Helper()
	if text, err := os.Readlink(n.link()); text != want {
		n.t.Errorf("%s leads to %q (%v); want %s", n.link(), text, err, want)
	}
}

// isHeld checks whether a device is held for the publication.
func (n *blockBench) isHeld(want bool) {
	n.t.Helper()
	if _, is, err := blockdevice.Held(n.tag()); is != want || err != nil {
		n.t.Errorf("held: %v (%v); want %v", is, err, want)
	}
}
