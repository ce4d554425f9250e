package csivolume

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
	"github.com/podstream/podstream/internal/execsvc/setup/volume"
	"github.com/podstream/podstream/internal/kubeletdir"
	"github.com/podstream/podstream/internal/roottest"
)

// pods starts a Storage on the bench, and the Manager of pods' volumes above it.
func (n *bench) pods() (m *volume.Manager, stop func()) {
	n.t.Helper()
	records, err := record.Open(filepath.Join(n.kubelet, "records"), "agent")
	must(n.t, err)
	s := storage.New(storage.Config{
		Records: records, Agent: "agent", Boot: "boot", Backends: map[string]storage.Backend{BackendName: n.Backend}, Claims: n.Resolver,
		Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(ctx)
	}()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	n.t.Cleanup(stop)
	<-s.Reconstructed()
	return volume.New(volume.Config{PodDirs: kubeletdir.Pods{Current: kubeletdir.PodsDir(n.kubelet)}, Plugins: []volume.Plugin{s}}), stop
}

// mountedPod is a pod whose container mounts its volumes.
func mountedPod() *v1.Pod {
	p, _ := pod()
	_, scratch := inlinePod()
	p.Spec.Volumes = append(p.Spec.Volumes, *scratch)
	p.Spec.Containers = []v1.Container{{Name: "c", VolumeMounts: []v1.VolumeMount{{Name: "data", MountPath: "/data"}, {Name: "scratch", MountPath: "/s"}}}}
	return p
}

// TestPod: a pod's claim and inline volume are set up and torn down through packages volume and storage, with a restart of
// podexecd and of the driver's answers between. Nothing is left, except the driver's directory of staged volumes.
func TestPod(t *testing.T) {
	roottest.Need(t, "mount")
	n := newBench(t, canStage)
	n.spec = &storagev1.CSIDriverSpec{VolumeLifecycleModes: both, AttachRequired: ptr.To(false)}
	m, stop := n.pods()
	p := mountedPod()
	must(t, m.SetUp(t.Context(), volume.Request{Pod: p}))
	mounts, err := m.Mounts(t.Context(), p, &p.Spec.Containers[0], nil)
	must(t, err)
	for _, mount := range mounts {
		if _, err := os.Stat(filepath.Join(mount.HostPath, "canary")); err != nil {
			t.Error(err)
		}
	}
	if mounts[0].HostPath != n.mount() {
		t.Errorf("the container gets %s; want %s", mounts[0].HostPath, n.mount())
	}
	stop()
	n.pv, n.spec = nil, nil // The API server is away.
	m, _ = n.pods()
	n.driver.taken()
	must(t, m.SetUp(t.Context(), volume.Request{Pod: p}))
	if all := n.driver.taken(); len(all) > 0 {
		t.Errorf("volumes that are set up are made again: %v", texts(all))
	}
	unstaged := make(chan struct{})
	n.driver.does(func(r proto.Message) error {
		if _, ok := r.(*csipb.NodeUnstageVolumeRequest); ok {
			defer close(unstaged)
		}
		return n.driver.usual(r)
	})
	must(t, m.TearDown(t.Context(), podUID))
	isGone(t, filepath.Join(n.kubelet, "pods", podUID))
	<-unstaged
}

// TestPodThatFails: the directory of a pod whose volume the driver refuses is removed.
func TestPodThatFails(t *testing.T) {
	n := newBench(t)
	n.spec = &storagev1.CSIDriverSpec{VolumeLifecycleModes: both, AttachRequired: ptr.To(false)}
	n.driver.fails(status.Error(codes.InvalidArgument, "no"))
	m, _ := n.pods()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := m.SetUp(ctx, volume.Request{Pod: mountedPod()}); err == nil {
		t.Fatal("it is set up")
	}
	must(t, m.TearDown(t.Context(), podUID))
	isGone(t, filepath.Join(n.kubelet, "pods", podUID))
	for _, r := range n.driver.taken() {
		if _, ok := r.(*csipb.NodePublishVolumeRequest); !ok {
			t.Errorf("the driver got %T", r)
		}
	}
}
