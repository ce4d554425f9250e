package csivolume

import (
	"path/filepath"
	"strings"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/setup/volume"
)

// TestBlockErrors: the errors of a block volume have the kubelet's words.
func TestBlockErrors(t *testing.T) {
	n := newBlockBench(t, canStage)
	n.spec = &storagev1.CSIDriverSpec{VolumeLifecycleModes: both, AttachRequired: ptr.To(false)}
	p, _ := pod()
	p.Spec.Containers = []v1.Container{{Name: "c", VolumeDevices: []v1.VolumeDevice{{Name: "data", DevicePath: "/dev/xvda"}}}}
	n.driver.fails(status.Error(codes.InvalidArgument, "no"))
	m, _ := n.pods()
	fails := func(want string) {
		t.Helper()
		err := m.SetUp(t.Context(), volume.Request{Pod: p})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
	fails(`MapVolume.SetUpDevice failed for volume "pv-1" : rpc error: code = InvalidArgument`)
	must(t, m.TearDown(t.Context(), podUID))
	n.driver.does(func(r proto.Message) error {
		if _, ok := r.(*csipb.NodePublishVolumeRequest); ok {
			return status.Error(codes.InvalidArgument, "no")
		}
		return nil
	})
	fails(`MapVolume.MapPodDevice failed for volume "pv-1" : rpc error: code = InvalidArgument`)
	must(t, m.TearDown(t.Context(), podUID))
	n.pv.Spec.CSI.Driver = "other.example.com"
	fails(`MapVolume.SetUpDevice failed for volume "pv-1" : kubernetes.io/csi: blockMapper.SetUpDevice failed to get CSI client: driver name other.example.com not found`)
	must(t, m.TearDown(t.Context(), podUID))
	isGone(t, filepath.Join(n.kubelet, "pods", podUID))
}
