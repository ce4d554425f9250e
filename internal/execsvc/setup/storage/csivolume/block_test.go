package csivolume

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/blockdevice"
	"github.com/podstream/podstream/internal/execsvc/setup/volume"
	"github.com/podstream/podstream/internal/roottest"
)

// TestBlockVolume: the life of a block volume, bound and linked. The requests and paths are the kubelet's, the device is held while
// it is published, and nothing is left.
func TestBlockVolume(t *testing.T) {
	for name, links := range map[string]bool{"bound": false, "linked": true} {
		t.Run(name, func(t *testing.T) {
			n := newBlockBench(t, canStage, canStats, canExpand, canGroup)
			n.links = links
			p, spec := pod()
			p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr.To(int64(5))}
			v, s, pub := n.resolved(p, spec)
			if !v.Device || !v.Stages || !v.Attaches {
				t.Fatalf("resolved as %+v", v)
			}
			attached, attributes := map[string]string{"device": "/dev/x"}, map[string]string{"tier": "fast"}
			c := &csipb.VolumeCapability{
				AccessMode: &csipb.VolumeCapability_AccessMode{Mode: csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
				AccessType: &csipb.VolumeCapability_Block{Block: &csipb.VolumeCapability_BlockVolume{}},
			}
			must(t, n.Stage(t.Context(), s))
			n.sent(&csipb.NodeStageVolumeRequest{
				VolumeId: handle, StagingTargetPath: n.staging(), PublishContext: attached, VolumeContext: attributes, VolumeCapability: c,
			})
			must(t, n.Publish(t.Context(), pub))
			n.sent(&csipb.NodePublishVolumeRequest{
				VolumeId: handle, StagingTargetPath: n.staging(), TargetPath: n.published(), PublishContext: attached,
				VolumeContext: attributes, VolumeCapability: c,
			})
			want := n.published()
			if links {
				want = n.device
			}
			n.leadsTo(want)
			n.isHeld(true)
			must(t, n.CheckDevice(pub))

			must(t, n.Expand(t.Context(), pub, ExpandArgs(1<<40)))
			n.sent(&csipb.NodeExpandVolumeRequest{
				VolumeId: handle, VolumePath: n.published(), StagingTargetPath: n.staging(), VolumeCapability: c,
				CapacityRange: &csipb.CapacityRange{RequiredBytes: 1 << 40},
			})
			_, err := n.Stats(t.Context(), pub)
			must(t, err)
			n.sent(&csipb.NodeGetVolumeStatsRequest{VolumeId: handle, VolumePath: n.published()})

			// A call that is repeated after a restart is the same one.
			n.restart()
			n.driver.fails(nil)
			must(t, n.Stage(t.Context(), s), n.Publish(t.Context(), pub))
			n.driver.taken()
			n.leadsTo(want)

			n.driver.does(func(r proto.Message) error {
				if _, ok := r.(*csipb.NodeUnpublishVolumeRequest); ok {
					// It is given up before the driver is called.
					isGone(t, n.link())
					n.isHeld(false)
				}
				return n.usual(r)
			})
			must(t, n.Unpublish(t.Context(), pub))
			n.sent(&csipb.NodeUnpublishVolumeRequest{VolumeId: handle, TargetPath: n.published()})
			must(t, n.Unstage(t.Context(), s))
			n.sent(&csipb.NodeUnstageVolumeRequest{VolumeId: handle, StagingTargetPath: n.staging()})
			n.driver.fails(nil) // There is nothing any more.
			must(t, n.Unpublish(t.Context(), pub), n.Unstage(t.Context(), s))
			isGone(t, n.link(), filepath.Dir(n.published()), n.staging())
		})
	}
}

// TestNoDevice: a driver that confirms a block volume, and has made something else than a block device, doesn't have a container
// started with it. What it has made isn't followed, and the volume can still be undone.
func TestNoDevice(t *testing.T) {
	n := newBlockBench(t)
	_, _, p := n.resolved(pod())
	for name, test := range map[string]struct {
		make func(path string) error
		want string
	}{
		"nothing":          {func(string) error { return nil }, "no such file"},
		"a file":           {func(p string) error { return os.WriteFile(p, nil, 0o600) }, "it isn't a block device"},
		"a link elsewhere": {func(p string) error { return os.Symlink(n.link(), p) }, "doesn't lead into /dev"},
		"a terminal":       {func(p string) error { return os.Symlink("/dev/null", p) }, "it isn't a block device"},
	} {
		n.driver.does(func(r proto.Message) error {
			if r, ok := r.(*csipb.NodePublishVolumeRequest); ok {
				return test.make(r.GetTargetPath())
			}
			return nil
		})
		t.Log(name)
		isUncertain(t, n.Publish(t.Context(), p), test.want)
		isGone(t, n.link())
		n.isHeld(false)
		if n.CheckDevice(p) == nil {
			t.Error("the device can be used")
		}
		// The driver leaves an empty file, or a link: nothing is lost with it.
		must(t, n.Unpublish(t.Context(), p))
		isGone(t, n.published())
	}
	n.driver.fails(status.Error(codes.InvalidArgument, "no"))
	if err := n.Publish(t.Context(), p); storage.OutcomeOf(err) != storage.Final {
		t.Errorf("%v isn't final", err)
	}
	isGone(t, filepath.Dir(n.published()))
}

// TestSwappedDevice: before a container starts, a device that isn't the published one is noticed, whatever was replaced.
func TestSwappedDevice(t *testing.T) {
	n := newBlockBench(t)
	_, _, p := n.resolved(pod())
	other := roottest.LoopDevice(t)
	for name, test := range map[string]struct {
		links bool
		swap  func() error
		want  string
	}{
		"the driver's link": {true, func() error { return errors.Join(os.Remove(n.published()), os.Symlink(other, n.published())) }, "isn't the link"},
		"the pod's link":    {true, func() error { return errors.Join(os.Remove(n.link()), os.Symlink(other, n.link())) }, "isn't the link"},
		"both links": {true, func() error {
			return errors.Join(os.Remove(n.link()), os.Remove(n.published()), os.Symlink(other, n.link()), os.Symlink(other, n.published()))
		}, "was published"},
		"the bound device":   {false, func() error { return unix.Mount(other, n.published(), "", unix.MS_BIND, "") }, "was published"},
		"the unbound device": {false, func() error { return unix.Unmount(n.published(), unix.MNT_DETACH) }, "it isn't a block device"},
		"the lock":           {false, func() error { return blockdevice.Release(n.tag()) }, "no loop device holds"},
	} {
		n.links = test.links
		n.driver.does(n.usual)
		must(t, n.Publish(t.Context(), p), n.CheckDevice(p))
		must(t, test.swap())
		if err := n.CheckDevice(p); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want %s", name, err, test.want)
		}
		n.driver.does(func(proto.Message) error {
			for range 2 {
				_ = unix.Unmount(n.published(), unix.UMOUNT_NOFOLLOW)
			}
			return os.Remove(n.published())
		})
		must(t, n.Unpublish(t.Context(), p))
	}
}

// TestBlockLinkedDirectory: no directory on the way to a block volume may be replaced by a link.
func TestBlockLinkedDirectory(t *testing.T) {
	kernels(t, func(t *testing.T) {
		n := newBlockBench(t, canStage)
		_, s, p := n.resolved(pod())
		calls := map[string][]func() error{
			n.staging(): {func() error { return n.Stage(t.Context(), s) }, func() error { return n.Unstage(t.Context(), s) }},
		}
		for dir := filepath.Dir(n.published()); dir != filepath.Join(n.kubelet, "plugins"); dir = filepath.Dir(dir) {
			calls[dir] = []func() error{func() error { return n.Publish(t.Context(), p) }, func() error { return n.Unpublish(t.Context(), p) }}
		}
		for dir, all := range calls {
			must(t, os.RemoveAll(dir), os.MkdirAll(filepath.Dir(dir), 0o750), os.Symlink(outside(t), dir))
			for _, call := range all {
				n.isNotSent(call())
			}
			must(t, os.Remove(dir))
		}
		// The pod's directory: the driver is called, and no link is made elsewhere.
		dir := filepath.Dir(n.link())
		must(t, os.MkdirAll(filepath.Dir(dir), 0o750), os.Symlink(outside(t), dir))
		isUncertain(t, n.Publish(t.Context(), p), "symbolic link")
		n.driver.taken()
		n.isNotSent(n.Unpublish(t.Context(), p))
		must(t, os.Remove(dir), n.Unpublish(t.Context(), p))
	})
}

// TestStillADevice: a device that is still there after the driver's confirmation isn't removed, and the volume isn't unstaged.
func TestStillADevice(t *testing.T) {
	n := newBlockBench(t)
	_, _, p := n.resolved(pod())
	must(t, n.Publish(t.Context(), p))
	n.driver.fails(nil)
	isUncertain(t, n.Unpublish(t.Context(), p), "the device is still there")
	n.driver.does(n.usual)
	must(t, n.Unpublish(t.Context(), p))
	must(t, os.WriteFile(n.link(), []byte("data"), 0o600))
	must(t, os.MkdirAll(filepath.Dir(n.published()), 0o750), os.WriteFile(n.published(), []byte("data"), 0o600))
	n.driver.fails(nil)
	isUncertain(t, n.Unpublish(t.Context(), p), "left as it is")
	for _, file := range []string{n.published(), n.link()} {
		if text, err := os.ReadFile(file); string(text) != "data" {
			t.Errorf("%s has %q (%v)", file, text, err)
		}
	}
}

// TestOneHandleTwoModes: a volume isn't published as a device while it is staged as a file system for another PersistentVolume with
// its handle. Two block volumes with one handle share the staging.
func TestOneHandleTwoModes(t *testing.T) {
	n := newBlockBench(t, canStage)
	_, s, p := n.resolved(pod())
	n.pv.Spec.VolumeMode = nil
	_, files, _ := n.bench.resolved(pod())
	p.Staging.Args = files.Args
	n.isNotSent(n.Publish(t.Context(), p))
	n.pv.Spec.VolumeMode, n.pv.Name = ptr.To(v1.PersistentVolumeBlock), "pv-2"
	_, second, _ := n.resolved(pod())
	p.Staging.Args = second.Args
	must(t, n.Publish(t.Context(), p))
	if r, ok := n.one().(*csipb.NodePublishVolumeRequest); !ok || r.GetStagingTargetPath() != filepath.Join(filepath.Dir(n.staging()), "pv-2") {
		t.Errorf("sent %v; want the staging path of pv-2", r)
	}
	p.Staging = s
	must(t, n.Unpublish(t.Context(), p))
}

// TestBlockPod: a pod's claim is a device in its container, through packages volume and storage, also after a restart without the
// API server. A device that was swapped keeps the container from starting. Nothing is left.
func TestBlockPod(t *testing.T) {
	n := newBlockBench(t, canStage)
	n.spec = &storagev1.CSIDriverSpec{VolumeLifecycleModes: both, AttachRequired: ptr.To(false)}
	m, stop := n.pods()
	p, _ := pod()
	p.Spec.Containers = []v1.Container{{Name: "c", VolumeDevices: []v1.VolumeDevice{{Name: "data", DevicePath: "/dev/xvda"}}}}
	must(t, m.SetUp(t.Context(), volume.Request{Pod: p}))
	has := func(m *volume.Manager) {
		t.Helper()
		got, err := m.Devices(t.Context(), p, &p.Spec.Containers[0])
		if want := []criconfig.Device{{HostPath: n.link(), ContainerPath: "/dev/xvda", Permissions: "mrw"}}; !reflect.DeepEqual(got, want) {
			t.Errorf("the container has %v (%v); want %v", got, err, want)
		}
	}
	has(m)
	stop()
	n.pv, n.spec = nil, nil // The API server is away.
	m, _ = n.pods()
	n.driver.taken()
	must(t, m.SetUp(t.Context(), volume.Request{Pod: p}))
	if all := n.driver.taken(); len(all) > 0 {
		t.Errorf("a volume that is set up is made again: %v", texts(all))
	}
	has(m)
	must(t, os.Remove(n.link()), os.Symlink("/dev/null", n.link()))
	if got, err := m.Devices(t.Context(), p, &p.Spec.Containers[0]); err == nil {
		t.Errorf("the container gets %v, which was swapped", got)
	}
	unstaged := make(chan struct{})
	n.driver.does(func(r proto.Message) error {
		if _, ok := r.(*csipb.NodeUnstageVolumeRequest); ok {
			defer close(unstaged)
		}
		return n.usual(r)
	})
	must(t, m.TearDown(t.Context(), podUID))
	isGone(t, filepath.Join(n.kubelet, "pods", podUID), n.published())
	n.isHeld(false)
	<-unstaged
}
