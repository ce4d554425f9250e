package cluster

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/execsvc/cluster/apivolumes"
	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/csidriver"
	"github.com/podstream/podstream/test/csidriver/fault"
	"github.com/podstream/podstream/test/rig"
)

// A pod runs with its volume, and leaves nothing. podexecd is killed in the midst of staging: it repeats the call.
func TestClaim(t *testing.T) {
	s := newStorageNode(t, "claim", false)
	var pod *corev1.Pod
	check(t, "the pod runs with its volume", func(t *testing.T) {
		data := rig.Get(filepath.Glob(filepath.Join(s.driver.Options().Dir, "data", "*")))(t)
		rig.Must(t, os.WriteFile(filepath.Join(data[0], "canary"), []byte("alive"), 0o600))
		pod = s.run(t, "first")
		s.awaitRunning(t, pod)
		if got := string(rig.Get(os.ReadFile(filepath.Join(s.mounted(pod), "canary")))(t)); got != "alive" {
			t.Errorf("the volume has %q", got)
		}
		rig.Must(t, os.WriteFile(filepath.Join(s.mounted(pod), "written"), []byte("by the first"), 0o600))
	})
	check(t, "podexecd is killed and started: the pod goes on, and nothing is called", func(t *testing.T) {
		before := len(s.calls(t, "NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"))
		s.podexecd.Kill()
		s.startExec(t)
		s.awaitRunning(t, pod)
		s.await(t, "podexecd knows the driver again", func(context.Context) (bool, string) {
			n := len(s.calls(t, "NodeGetInfo"))
			return n >= 2, fmt.Sprint(n)
		})
		if after := s.calls(t, "NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"); len(after) != before {
			t.Errorf("after the restart: %v", after)
		}
	})
	check(t, "the pod ends: its volume is unpublished and unstaged", func(t *testing.T) {
		remove(t, s.admin, pod.Name)
		s.awaitGone(t, pod)
		s.awaitCall(t, "NodeUnstageVolume", 1)
		for _, method := range []string{"NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"} {
			if calls := s.calls(t, method); len(calls) != 1 {
				t.Errorf("in the pod's life, with a restart of podexecd, there were %v; want one", calls)
			}
		}
	})
	check(t, "podexecd is killed while the driver stages: the call is repeated as it was", func(t *testing.T) {
		id := rig.Get(s.driver.Faults.Add(t.Context(), fault.Fault{Method: "NodeStageVolume", Action: fault.Hold, Times: 1}))(t)
		pod = s.run(t, "second")
		rig.Must(t, s.driver.Faults.Await(t.Context(), id, 1))
		s.podexecd.Kill()
		s.startExec(t)
		s.await(t, "podexecd repeats the call", func(context.Context) (bool, string) {
			n := len(s.calls(t, "NodeStageVolume"))
			return n >= 3, fmt.Sprint(n)
		})
		rig.Must(t, s.driver.Faults.Release(t.Context(), id))
		s.awaitRunning(t, pod)
		if got := string(rig.Get(os.ReadFile(filepath.Join(s.mounted(pod), "written")))(t)); got != "by the first" {
			t.Errorf("the volume has %q", got)
		}
	})
	check(t, "the second pod ends, and nothing is left", func(t *testing.T) {
		remove(t, s.admin, pod.Name)
		s.awaitGone(t, pod)
		s.awaitCall(t, "NodeUnstageVolume", 2)
		s.awaitUnrecorded(t)
		s.judge(t)
	})
}

// A volume that must be attached is staged after the Node lists it in volumesInUse, and leaves that after it is unstaged.
func TestAttachedClaim(t *testing.T) {
	s := newStorageNode(t, "attached", true)
	driver := s.driver.Options().Name
	attachment := apivolumes.Attachment{Driver: driver, Handle: "volume"}
	pod := s.run(t, "attached")
	check(t, "the Node lists the volume in volumesInUse, before it is staged", func(t *testing.T) {
		s.await(t, "the volume is in use", func(ctx context.Context) (bool, string) {
			names, err := s.inUse(ctx)
			return slices.Contains(names, attachment.UniqueName()), fmt.Sprintf("%v, %v; podexecd says\n%s", names, err, s.podexecd.Tail())
		})
		if early := s.calls(t, "NodeStageVolume"); len(early) > 0 {
			t.Errorf("the driver was called too early: %v", early)
		}
	})
	check(t, "it is attached, and the pod runs", func(t *testing.T) {
		s.attach(t, attachment, s.pv)
		s.awaitRunning(t, pod)
	})
	var before []corev1.UniqueVolumeName
	check(t, "while the driver unstages, the volume is in use", func(t *testing.T) {
		id := rig.Get(s.driver.Faults.Add(t.Context(), fault.Fault{Method: "NodeUnstageVolume", Action: fault.Hold, Times: 1}))(t)
		remove(t, s.admin, pod.Name)
		rig.Must(t, s.driver.Faults.Await(t.Context(), id, 1))
		before = rig.Get(s.inUse(t.Context()))(t)
		rig.Must(t, s.driver.Faults.Release(t.Context(), id))
		if !slices.Contains(before, attachment.UniqueName()) {
			t.Errorf("volumesInUse is %v", before)
		}
	})
	check(t, "it leaves volumesInUse, and nothing is left", func(t *testing.T) {
		s.awaitGone(t, pod)
		s.await(t, "the volume isn't in use", func(ctx context.Context) (bool, string) {
			names, err := s.inUse(ctx)
			return err == nil && len(names) == 0, fmt.Sprint(names, err)
		})
		s.detach(t, attachment)
		s.awaitUnrecorded(t)
		s.judge(t)
	})
}

// controller returns a client of a driver's controller service.
func (s *storageNode) controller(t *testing.T, driver string) csipb.ControllerClient {
	t.Helper()
	i := slices.IndexFunc(s.drivers, func(d *csidriver.Driver) bool { return d.Options().Name == driver })
	conn := rig.Get(grpc.NewClient("unix://"+s.drivers[i].Options().Endpoint, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { _ = conn.Close() })
	return csipb.NewControllerClient(conn)
}

// attach is the attach-detach controller with the driver's attacher. pv is the PersistentVolume of the volume.
func (s *storageNode) attach(t *testing.T, a apivolumes.Attachment, pv string) {
	t.Helper()
	answer := rig.Get(s.controller(t, a.Driver).ControllerPublishVolume(t.Context(), &csipb.ControllerPublishVolumeRequest{
		VolumeId: a.Handle, NodeId: s.name, VolumeCapability: &csipb.VolumeCapability{
			AccessType: &csipb.VolumeCapability_Mount{Mount: &csipb.VolumeCapability_MountVolume{}},
			AccessMode: &csipb.VolumeCapability_AccessMode{Mode: csipb.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER},
		},
	}))(t)
	attachments := s.admin.StorageV1().VolumeAttachments()
	object := rig.Get(attachments.Create(t.Context(), &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: a.ObjectName(s.name)},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: a.Driver, NodeName: s.name, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv}},
	}, metav1.CreateOptions{}))(t)
	object.Status = storagev1.VolumeAttachmentStatus{Attached: true, AttachmentMetadata: maps.Clone(answer.GetPublishContext())}
	rig.Get(attachments.UpdateStatus(t.Context(), object, metav1.UpdateOptions{}))(t)
	// podexecd posts the status too.
	rig.Must(t, control.Until(t.Context(), nil, "volumesAttached is posted", func(ctx context.Context) error {
		node, err := s.admin.CoreV1().Nodes().Get(ctx, s.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Status.VolumesAttached = append(node.Status.VolumesAttached, corev1.AttachedVolume{Name: a.UniqueName()})
		_, err = s.admin.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
		return err
	}))
}

// detach reverts the driver's part of attach.
func (s *storageNode) detach(t *testing.T, a apivolumes.Attachment) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	rig.Get(s.controller(t, a.Driver).ControllerUnpublishVolume(ctx, &csipb.ControllerUnpublishVolumeRequest{VolumeId: a.Handle, NodeId: s.name}))(t)
}
