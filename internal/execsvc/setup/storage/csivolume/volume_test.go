package csivolume

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/roottest"
)

const (
	canStage  = csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME
	canStats  = csipb.NodeServiceCapability_RPC_GET_VOLUME_STATS
	canExpand = csipb.NodeServiceCapability_RPC_EXPAND_VOLUME
	canGroup  = csipb.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP
)

// capability is the capability of the bench's PersistentVolume.
func capability(group string) *csipb.VolumeCapability {
	return &csipb.VolumeCapability{
		AccessMode: &csipb.VolumeCapability_AccessMode{Mode: csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &csipb.VolumeCapability_Mount{Mount: &csipb.VolumeCapability_MountVolume{
			FsType: "ext4", MountFlags: []string{"noatime"}, VolumeMountGroup: group,
		}},
	}
}

// data reads a vol_data.json.
func data(t *testing.T, dir string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "vol_data.json"))
	must(t, err)
	var keys map[string]string
	must(t, json.Unmarshal(text, &keys))
	return keys
}

func isMode(t *testing.T, path string, want os.FileMode) {
	t.Helper()
	info, err := os.Lstat(path)
	must(t, err)
	if info.Mode() != want {
		t.Errorf("%s has the mode %v; want %v", path, info.Mode(), want)
	}
}

// isGone checks that there is nothing at the paths.
func isGone(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there (%v)", path, err)
		}
	}
}

// TestVolume: the life of a PersistentVolume with real mounts. The requests, the paths, their modes and vol_data.json are
// the kubelet's.
func TestVolume(t *testing.T) {
	roottest.Need(t, "mount")
	defer unix.Umask(unix.Umask(0o022))
	n := newBench(t, canStage, canStats, canExpand)
	from := n.pv.Spec.CSI
	for name, ref := range map[string]**v1.SecretReference{
		"stage": &from.NodeStageSecretRef, "publish": &from.NodePublishSecretRef, "expand": &from.NodeExpandSecretRef,
	} {
		*ref = &v1.SecretReference{Namespace: "vault", Name: name}
		n.secrets["vault/"+name] = map[string]string{"key": "secret to " + name}
	}
	v, s, p := n.resolved(pod())
	if want := "kubernetes.io/csi/" + driverName + "^" + handle; !v.Stages || !v.Attaches || v.UniqueName != want || v.Name != "pv-1" {
		t.Fatalf("resolved as %+v", v)
	}
	attached, attributes := map[string]string{"device": "/dev/x"}, map[string]string{"tier": "fast"}

	must(t, n.Stage(t.Context(), s))
	n.sent(&csipb.NodeStageVolumeRequest{
		VolumeId: handle, StagingTargetPath: n.staging(), PublishContext: attached, VolumeContext: attributes,
		VolumeCapability: capability(""), Secrets: map[string]string{"key": "secret to stage"},
	})
	must(t, n.Publish(t.Context(), p))
	n.sent(&csipb.NodePublishVolumeRequest{
		VolumeId: handle, StagingTargetPath: n.staging(), TargetPath: n.mount(), PublishContext: attached, VolumeContext: attributes,
		VolumeCapability: capability(""), Secrets: map[string]string{"key": "secret to publish"},
	})
	if _, err := os.Stat(filepath.Join(n.mount(), "canary")); err != nil {
		t.Error(err)
	}
	for dir := n.dir(); dir != filepath.Join(n.kubelet, "pods"); dir = filepath.Dir(dir) {
		isMode(t, dir, os.ModeDir|0o750)
	}
	isMode(t, filepath.Dir(n.staging()), os.ModeDir|0o750)
	isMode(t, filepath.Join(n.dir(), "vol_data.json"), 0o644)
	// The name of the attachment is sha256sum's, of handle, driver and node.
	want := map[string]string{
		"specVolID": "pv-1", "volumeHandle": handle, "driverName": driverName, "nodeName": "node-1", "volumeLifecycleMode": "Persistent",
		"attachmentID": attachmentName,
	}
	if got := data(t, n.dir()); !reflect.DeepEqual(got, want) {
		t.Errorf("vol_data.json has %v; want %v", got, want)
	}
	if got := data(t, filepath.Dir(n.staging())); !reflect.DeepEqual(got, map[string]string{"volumeHandle": handle, "driverName": driverName}) {
		t.Errorf("vol_data.json of the staged volume has %v", got)
	}

	must(t, n.Expand(t.Context(), p, ExpandArgs(1<<40)))
	n.sent(&csipb.NodeExpandVolumeRequest{
		VolumeId: handle, VolumePath: n.mount(), StagingTargetPath: n.staging(), CapacityRange: &csipb.CapacityRange{RequiredBytes: 1 << 40},
		VolumeCapability: capability(""), Secrets: map[string]string{"key": "secret to expand"},
	})
	stats, err := n.Stats(t.Context(), p)
	if want := (storage.Stats{Available: 60, Capacity: 100, Used: 40, Inodes: 10, InodesFree: 7, InodesUsed: 3}); err != nil || stats != want {
		t.Errorf("the statistics are %+v, %v", stats, err)
	}
	n.sent(&csipb.NodeGetVolumeStatsRequest{VolumeId: handle, VolumePath: n.mount()})

	must(t, n.Unpublish(t.Context(), p))
	n.sent(&csipb.NodeUnpublishVolumeRequest{VolumeId: handle, TargetPath: n.mount()})
	if left, err := os.ReadDir(n.dir()); err != nil || len(left) > 0 {
		t.Errorf("after Unpublish: %v, %v; want the empty directory", left, err)
	}
	must(t, n.Unstage(t.Context(), s))
	n.sent(&csipb.NodeUnstageVolumeRequest{VolumeId: handle, StagingTargetPath: n.staging()})
	isGone(t, filepath.Dir(n.staging()))
}

// TestRepeated: a call that is repeated after a restart is the same one, whatever has changed meanwhile, and has the same
// effect.
func TestRepeated(t *testing.T) {
	roottest.Need(t, "mount")
	n := newBench(t, canStage)
	n.spec = &storagev1.CSIDriverSpec{PodInfoOnMount: ptr.To(true), VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}}
	_, s, p := n.resolved(pod())
	must(t, n.Stage(t.Context(), s), n.Publish(t.Context(), p))
	first := n.driver.taken()

	n.spec, n.pv, n.cfg.KubeletDir, n.cfg.Node = nil, nil, filepath.Join(n.kubelet, "moved"), "node-2"
	n.restart()
	n.driver.fails(nil) // It is mounted already.
	must(t, n.Stage(t.Context(), s), n.Publish(t.Context(), p))
	if again := n.driver.taken(); !reflect.DeepEqual(texts(again), texts(first)) {
		t.Errorf("repeated as\n%v\nwant\n%v", texts(again), texts(first))
	}
	n.driver.does(nil)
	must(t, n.Unpublish(t.Context(), p), n.Unstage(t.Context(), s))
	n.driver.fails(nil) // Nothing is mounted any more.
	must(t, n.Unpublish(t.Context(), p), n.Unstage(t.Context(), s))
	isGone(t, n.mount(), filepath.Dir(n.staging()))
}
