package cluster

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/podstream/podstream/internal/execsvc/cluster/apivolumes"
	"github.com/podstream/podstream/internal/kubeletdir"
	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/csidriver"
	"github.com/podstream/podstream/test/csidriver/calllog"
	"github.com/podstream/podstream/test/csidriver/fault"
	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

// storageNode is a node with podconfigd, podexecd on the simulated runtime, and a CSI driver.
type storageNode struct {
	*node
	podexecd *control.Process
	// programs is the directory of podexecd and simruntimed.
	programs string
	admin    kubernetes.Interface
	driver   *csidriver.Driver
	// pv is the name of the PersistentVolume, and claim of its claim.
	pv, claim string
}

// newStorageNode starts a node whose driver has one volume, with a bound claim to it.
func newStorageNode(t *testing.T, name string, attachRequired bool) *storageNode {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("volumes need root")
	}
	s := &storageNode{admin: plane.client(t), programs: filepath.Join(dir, "node-programs"), pv: "pv-" + name, claim: "claim-" + name}
	rig.Must(t, os.MkdirAll(s.programs, 0o755))
	rig.Must(t, buildAt(s.programs+"/", "./cmd/podexecd", "./internal/simruntime/simruntimed"))
	s.node = newNode(t, name)
	kubelet := s.path("kubelet")
	rig.Must(t, os.MkdirAll(kubeletdir.Registry(kubelet), 0o750))
	runtime := rig.Get(control.StartProcess("simruntimed", s.path("sim.log"), filepath.Join(s.programs, "simruntimed"),
		"--listen", "unix://"+s.path("sim"), "--state-dir", s.path("simstate")))(t)
	t.Cleanup(runtime.Kill)
	s.startExec(t)
	t.Cleanup(func() {
		if err := s.podexecd.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the output of podexecd ends with:\n%s", s.podexecd.Tail())
		}
	})
	csiName := name + ".csi.podstream.test"
	s.driver = rig.Get(csidriver.Start(csidriver.Options{
		Name: csiName, NodeID: name, AttachRequired: attachRequired, Dir: s.path("driver"), Volumes: []string{"volume"},
		Endpoint:     filepath.Join(kubeletdir.Plugins(kubelet), "test", "csi.sock"),
		Registration: filepath.Join(kubeletdir.Registry(kubelet), "test-reg.sock"),
	}))(t)
	t.Cleanup(s.driver.Stop)
	rig.Get(s.admin.StorageV1().CSIDrivers().Create(t.Context(), &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: csiName}, Spec: storagev1.CSIDriverSpec{AttachRequired: &attachRequired},
	}, metav1.CreateOptions{}))(t)
	s.bindClaim(t, csiName)
	return s
}

// startExec starts podexecd, for the first time or after its end.
func (s *storageNode) startExec(t *testing.T) {
	t.Helper()
	args := slices.Concat(devnode.RoomFlags, devnode.HostFlags, []string{
		"--cgroups-per-qos=false", "--root-dir", s.path("exec"), "--kubelet-dir", s.path("kubelet"), "--listen", "unix://" + s.path("exec.sock"),
		"--podconfig-endpoint", "unix://" + s.path("socket"), "--container-runtime-endpoint", "unix://" + s.path("sim"),
		"--pod-logs-dir", s.path("podlogs"), "--kubeconfig", s.path("kubeconfig"), "--hostname-override", s.name, "--node-ip=127.0.0.1",
		"--enable-server=false",
	})
	s.podexecd = rig.Get(control.StartProcess("podexecd", s.path("exec.log"), filepath.Join(s.programs, "podexecd"), args...))(t)
}

// bindClaim creates the PersistentVolume and its claim, as the controller of volumes leaves them.
func (s *storageNode) bindClaim(t *testing.T, driver string) {
	t.Helper()
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}
	claims := s.admin.CoreV1().PersistentVolumeClaims(namespace)
	claim := rig.Get(claims.Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: s.claim},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, VolumeName: s.pv, StorageClassName: new(string), Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}, metav1.CreateOptions{}))(t)
	rig.Get(s.admin.CoreV1().PersistentVolumes().Create(t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: s.pv},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef:               &corev1.ObjectReference{Namespace: namespace, Name: claim.Name, UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "volume"}},
		},
	}, metav1.CreateOptions{}))(t)
	claim.Status.Phase = corev1.ClaimBound
	rig.Get(claims.UpdateStatus(t.Context(), claim, metav1.UpdateOptions{}))(t)
}

// run creates a pod with the claim.
func (s *storageNode) run(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	return s.create(t, s.admin, name, func(pod *corev1.Pod) {
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: s.claim},
		}}}
		pod.Spec.Containers[0].Image = "localhost/main:1"
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
		pod.Spec.TerminationGracePeriodSeconds = new(int64(1))
	})
}

// await waits until good is true.
func (s *storageNode) await(t *testing.T, what string, good func(context.Context) (bool, string)) {
	t.Helper()
	rig.Must(t, control.Until(t.Context(), s.podexecd, what, func(ctx context.Context) error {
		ok, now := good(ctx)
		if !ok {
			return fmt.Errorf("%w: %s", control.ErrNotYet, now)
		}
		return nil
	}))
}

func (s *storageNode) awaitRunning(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	s.await(t, "the pod runs", func(ctx context.Context) (bool, string) {
		got, err := s.admin.CoreV1().Pods(namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return got.Status.Phase == corev1.PodRunning, fmt.Sprintf("%+v; podexecd says\n%s", got.Status, s.podexecd.Tail())
	})
}

func (s *storageNode) awaitGone(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	s.await(t, "the pod is gone", func(ctx context.Context) (bool, string) {
		_, err := s.admin.CoreV1().Pods(namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
}

// calls returns the calls of the driver until now.
func (s *storageNode) calls(t *testing.T, methods ...string) []*calllog.Call {
	t.Helper()
	log := rig.Get(calllog.Read(s.driver.Options().Log))(t)
	if len(methods) == 0 {
		return log.Calls
	}
	return log.Of(methods...)
}

// awaitCall waits until a call of the method has succeeded n times.
func (s *storageNode) awaitCall(t *testing.T, method string, n int) {
	t.Helper()
	s.await(t, fmt.Sprintf("%s succeeds %d times", method, n), func(context.Context) (bool, string) {
		done := calllog.Succeeded(s.calls(t, method))
		return len(done) >= n, fmt.Sprintf("%v; podexecd says\n%s", s.calls(t), s.podexecd.Tail())
	})
}

// judge checks the driver's log at the end.
func (s *storageNode) judge(t *testing.T) {
	t.Helper()
	calls := s.calls(t)
	for _, problem := range slices.Concat(calllog.Check(calls), calllog.NothingLeft(calls)) {
		t.Error(problem)
	}
	if mounts := string(rig.Get(os.ReadFile("/proc/self/mountinfo"))(t)); strings.Contains(mounts, s.path("kubelet")) {
		t.Errorf("something is mounted below %s:\n%s", s.path("kubelet"), mounts)
	}
	for _, at := range []string{"exec/volumes/*", "kubelet/plugins/kubernetes.io/csi/*/*", "kubelet/pods/*"} {
		if left := rig.Get(filepath.Glob(s.path(at)))(t); len(left) > 0 {
			t.Errorf("%v are left", left)
		}
	}
}

// mounted is the place of the pod's volume.
func (s *storageNode) mounted(pod *corev1.Pod) string {
	return filepath.Join(kubeletdir.PodsDir(s.path("kubelet")), string(pod.UID), "volumes", "kubernetes.io~csi", s.pv, "mount")
}

// inUse returns the Node's volumesInUse.
func (s *storageNode) inUse(ctx context.Context) ([]corev1.UniqueVolumeName, error) {
	object, err := s.admin.CoreV1().Nodes().Get(ctx, s.name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return object.Status.VolumesInUse, nil
}

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
		s.await(t, "podexecd has removed its records", func(context.Context) (bool, string) {
			left, err := filepath.Glob(s.path("exec/volumes/*"))
			return err == nil && len(left) == 0, fmt.Sprint(left, err)
		})
		s.judge(t)
	})
}

// A volume that must be attached is staged after the Node lists it in volumesInUse, and leaves that after it is unstaged.
func TestAttachedClaim(t *testing.T) {
	s := newStorageNode(t, "attached", true)
	driver := s.driver.Options().Name
	attachment := apivolumes.Attachment{Driver: driver, Handle: "volume", Volume: s.pv}
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
		s.attach(t, attachment)
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
		s.await(t, "podexecd has removed its records", func(context.Context) (bool, string) {
			left, err := filepath.Glob(s.path("exec/volumes/*"))
			return err == nil && len(left) == 0, fmt.Sprint(left, err)
		})
		s.judge(t)
	})
}

// controller returns a client of the driver's controller service.
func (s *storageNode) controller(t *testing.T) csipb.ControllerClient {
	t.Helper()
	conn := rig.Get(grpc.NewClient("unix://"+s.driver.Options().Endpoint, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { _ = conn.Close() })
	return csipb.NewControllerClient(conn)
}

// attach is the attach-detach controller with the driver's attacher.
func (s *storageNode) attach(t *testing.T, a apivolumes.Attachment) {
	t.Helper()
	answer := rig.Get(s.controller(t).ControllerPublishVolume(t.Context(), &csipb.ControllerPublishVolumeRequest{
		VolumeId: a.Handle, NodeId: s.name, VolumeCapability: &csipb.VolumeCapability{
			AccessType: &csipb.VolumeCapability_Mount{Mount: &csipb.VolumeCapability_MountVolume{}},
			AccessMode: &csipb.VolumeCapability_AccessMode{Mode: csipb.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER},
		},
	}))(t)
	attachments := s.admin.StorageV1().VolumeAttachments()
	object := rig.Get(attachments.Create(t.Context(), &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: a.ObjectName(s.name)},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: a.Driver, NodeName: s.name, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &a.Volume}},
	}, metav1.CreateOptions{}))(t)
	object.Status = storagev1.VolumeAttachmentStatus{Attached: true, AttachmentMetadata: maps.Clone(answer.GetPublishContext())}
	rig.Get(attachments.UpdateStatus(t.Context(), object, metav1.UpdateOptions{}))(t)
	// podexecd posts the status too.
	rig.Must(t, control.Until(t.Context(), nil, "volumesAttached is posted", func(ctx context.Context) error {
		node, err := s.admin.CoreV1().Nodes().Get(ctx, s.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Status.VolumesAttached = []corev1.AttachedVolume{{Name: a.UniqueName()}}
		_, err = s.admin.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
		return err
	}))
}

// detach reverts the driver's part of attach.
func (s *storageNode) detach(t *testing.T, a apivolumes.Attachment) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	rig.Get(s.controller(t).ControllerUnpublishVolume(ctx, &csipb.ControllerUnpublishVolumeRequest{VolumeId: a.Handle, NodeId: s.name}))(t)
}
