package podexecd

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/csivolume"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/directory"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/iscsi"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/local"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/nfs"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
	"github.com/podstream/podstream/internal/kubeletdir"
	"github.com/podstream/podstream/internal/roottest"
)

// TestKubeletVolumes: podexecd adopts no pod whose volumes a kubelet set up; those of its own records are its own.
func TestKubeletVolumes(t *testing.T) {
	dir := t.TempDir()
	records, err := record.Open(filepath.Join(dir, "records"), "me")
	if err != nil {
		t.Fatal(err)
	}
	volume := record.Volume{
		Boot: "boot", Key: record.Key{Driver: "d.example.com", Handle: "v"}, Traits: record.Traits{Backend: "csi"},
		Publications: []record.Publication{{
			Target: record.Target{UID: "mine", Plugin: "kubernetes.io/csi", Name: "pv"}, Call: record.Call{Phase: record.Done},
			Dir: filepath.Join(kubeletdir.PodsDir(dir), "mine/volumes/kubernetes.io~csi/pv"), Volumes: []string{"data"},
		}},
	}
	if err := records.Write(&volume); err != nil {
		t.Fatal(err)
	}
	mkdir := func(uid string) {
		at := filepath.Join(kubeletdir.PodsDir(dir), uid, "volumes/kubernetes.io~csi/pv")
		if err := errors.Join(os.MkdirAll(at, 0o750), os.WriteFile(filepath.Join(at, "vol_data.json"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	mkdir("mine")
	if err := checkKubeletVolumes(dir, records); err != nil {
		t.Error(err)
	}
	// A record of another agent doesn't hide it.
	other, err := record.Open(filepath.Join(dir, "records"), "other")
	if err != nil {
		t.Fatal(err)
	}
	foreign := volume
	foreign.Key.Handle, foreign.Publications = "w", nil
	if err := other.Write(&foreign); err != nil {
		t.Fatal(err)
	}
	mkdir("kubelets")
	if err := checkKubeletVolumes(dir, records); err == nil {
		t.Error("the volume of a kubelet isn't found")
	}
}

// TestOwnVolumes: podexecd starts with its own volumes, of each backend, also with --adopt-kubelet-pods. Without their records it takes them
// for a kubelet's.
func TestOwnVolumes(t *testing.T) {
	roottest.Need(t, "mounting")
	const dir = "/var/lib/kubelet" // The records have it; paths are compared below the directory of plugins.
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod", UID: "mine"}}
	claim := &v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}
	localPV := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "local"}}
	localPV.Spec.Local = &v1.LocalVolumeSource{Path: "/dev/disk"}
	block := v1.PersistentVolumeBlock
	devicePV, iscsiPV := localPV.DeepCopy(), localPV.DeepCopy()
	devicePV.Name, devicePV.Spec.VolumeMode = "device", &block
	iscsiPV.Name, iscsiPV.Spec.PersistentVolumeSource = "iscsi", v1.PersistentVolumeSource{ISCSI: &v1.ISCSIPersistentVolumeSource{
		TargetPortal: "192.0.2.1", IQN: "iqn.2001-04.com.example:storage", Lun: 1,
	}}
	iscsiDevice := iscsiPV.DeepCopy()
	iscsiDevice.Name, iscsiDevice.Spec.VolumeMode = "iscsi-device", &block
	share := &v1.Volume{Name: "share", VolumeSource: v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: "192.0.2.1", Path: "/"}}}
	made := func(v storage.Volume, err error) storage.Volume {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	csi := func(name string, device bool) storage.Volume {
		return storage.Volume{
			Key: record.Key{Driver: "d.example.com", Handle: name}, Traits: record.Traits{Backend: csivolume.BackendName, Stages: true},
			Plugin: csivolume.PluginName, Name: name, Device: device,
		}
	}
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte("csi")))
	for i, row := range []struct {
		volume storage.Volume
		staged string
	}{
		{csi("csi", false), "kubernetes.io/csi/d.example.com/" + hash + "/globalmount"},
		{csi("csi-device", true), "kubernetes.io/csi/volumeDevices/publish/csi-device/mine"},
		{csi("csi-staged", true), "kubernetes.io/csi/volumeDevices/staging/csi-staged"},
		{made(nfs.Inline(pod, share)), ""},
		{made(local.Persistent(dir, pod, claim, localPV)), "kubernetes.io/local-volume/mounts/local"},
		{made(local.Persistent(dir, pod, claim, devicePV)), "kubernetes.io~local-volume/volumeDevices/device/mine"},
		{made(iscsi.Persistent(dir, pod, claim, iscsiPV)), "kubernetes.io/iscsi/iface-default/192.0.2.1:3260-iqn.2001-04.com.example:storage-lun-1"},
		{
			made(iscsi.Persistent(dir, pod, claim, iscsiDevice)),
			"kubernetes.io/iscsi/volumeDevices/iface-default/192.0.2.1:3260-iqn.2001-04.com.example:storage-lun-1/mine",
		},
		{storage.Volume{
			Key: record.Key{Driver: directory.PluginName, Handle: "default/claim"}, Traits: record.Traits{Backend: directory.BackendName},
			Plugin: directory.PluginName, Name: "claim",
		}, ""},
	} {
		t.Run(row.volume.Name, func(t *testing.T) {
			dir := t.TempDir()
			records, err := record.Open(filepath.Join(dir, "records"), "me")
			if err != nil {
				t.Fatal(err)
			}
			kind := "volumes"
			if row.volume.Device {
				kind = "volumeDevices"
			}
			published := filepath.Join(kubeletdir.PodsDir(dir), "mine", kind, strings.ReplaceAll(row.volume.Plugin, "/", "~"), row.volume.Name)
			var mounts []string
			if row.staged != "" {
				mounts = append(mounts, filepath.Join(kubeletdir.Plugins(dir), row.staged))
			}
			mounts = append(mounts, published)
			if err := os.MkdirAll(kubeletdir.Plugins(dir), 0o750); err != nil {
				t.Fatal(err)
			}
			volume := record.Volume{Boot: "boot", Key: row.volume.Key, Traits: row.volume.Traits, Publications: []record.Publication{{
				Target: record.Target{UID: "mine", Plugin: row.volume.Plugin, Name: row.volume.Name}, Dir: published, Device: row.volume.Device,
				Call: record.Call{Phase: record.Done, Args: row.volume.PublishArgs}, Volumes: []string{"v"},
			}}}
			if volume.Stages {
				volume.Stage = record.Call{Phase: record.Done, Args: row.volume.StageArgs}
			}
			for _, at := range mounts {
				mount(t, at)
				if err := checkKubeletVolumes(dir, records); err == nil || !strings.Contains(err.Error(), at+" is of a volume") {
					t.Errorf("row %d: without a record of %s: %v; want an error", i, at, err)
				}
			}
			if err := records.Write(&volume); err != nil {
				t.Fatal(err)
			}
			if err := checkKubeletVolumes(dir, records); err != nil {
				t.Errorf("row %d: with the record: %v", i, err)
			}
		})
	}
}

// mount mounts an empty directory at the path until the test's end.
func mount(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(t.TempDir(), path, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}
