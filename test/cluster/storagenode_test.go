package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/podstream/podstream/internal/kubeletdir"
	"github.com/podstream/podstream/internal/porttest"
	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/csidriver"
	"github.com/podstream/podstream/test/csidriver/calllog"
	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

// storageNode is a node with podconfigd, podexecd and a CSI driver, on the simulated runtime unless a test starts another one.
type storageNode struct {
	*node
	podexecd *control.Process
	// programs is the directory of podexecd and simruntimed, and endpoint the runtime's.
	programs, endpoint string
	admin              kubernetes.Interface
	driver             *csidriver.Driver
	// pv is the name of the PersistentVolume, and claim of its claim.
	pv, claim string
	// mode is that of all volumes.
	mode corev1.PersistentVolumeMode
	// drivers are all drivers, the first one included.
	drivers []*csidriver.Driver
	// metrics is the address of podexecd's metrics.
	metrics string
}

// newStorageNode starts a node whose driver has one volume, with a bound claim to it.
// flags are for go build.
func newStorageNode(t *testing.T, name string, attachRequired bool, flags ...string) *storageNode {
	t.Helper()
	return newStorageNodeOf(t, corev1.PersistentVolumeFilesystem, name, attachRequired, flags...)
}

// newStorageNodeOf is newStorageNode with volumes of that mode.
func newStorageNodeOf(t *testing.T, mode corev1.PersistentVolumeMode, name string, attachRequired bool, flags ...string) *storageNode {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("mounting needs root")
	}
	s := &storageNode{
		node: newNode(t, name), admin: plane.client(t), programs: filepath.Join(dir, "node-programs"), pv: "pv-" + name, claim: "claim-" + name,
		mode: mode,
	}
	rig.Must(t, os.MkdirAll(s.programs, 0o755))
	rig.Must(t, buildAt(s.programs+"/", append(flags, "./cmd/podexecd", "./internal/simruntime/simruntimed")...))
	s.startSim(t)
	s.launchExec(t)
	s.driver = s.startDriver(t, name, attachRequired, "volume")
	s.bindClaim(t, s.pv, s.claim, s.driver.Options().Name, "volume")
	return s
}

// startSim starts the simulated runtime. It ends with the test.
func (s *storageNode) startSim(t *testing.T) {
	t.Helper()
	s.endpoint = "unix://" + s.path("sim")
	runtime := rig.Get(control.StartProcess("simruntimed", s.path("sim.log"), filepath.Join(s.programs, "simruntimed"),
		"--listen", s.endpoint, "--state-dir", s.path("simstate")))(t)
	t.Cleanup(runtime.Kill)
}

// startDriver starts a CSI driver with these volumes, and creates its CSIDriver.
func (s *storageNode) startDriver(t *testing.T, name string, attachRequired bool, volumes ...string) *csidriver.Driver {
	t.Helper()
	backing := csidriver.Directory
	if s.mode == corev1.PersistentVolumeBlock {
		backing = csidriver.Image
	}
	return s.startDriverWith(t, name, csidriver.Options{AttachRequired: attachRequired, Volumes: volumes, Backing: backing}, false)
}

// startDriverWith is startDriver with options, of which it sets those that depend on the name and the node. republish has podexecd repeat
// NodePublishVolume.
func (s *storageNode) startDriverWith(t *testing.T, name string, o csidriver.Options, republish bool) *csidriver.Driver {
	t.Helper()
	kubelet := s.path("kubelet")
	o.Name, o.NodeID, o.Dir = name+".csi.podstream.test", s.name, s.path("driver-"+name)
	o.Endpoint = filepath.Join(kubeletdir.Plugins(kubelet), name, "csi.sock")
	o.Registration = filepath.Join(kubeletdir.Registry(kubelet), name+"-reg.sock")
	driver := rig.Get(csidriver.Start(o))(t)
	t.Cleanup(driver.Stop)
	rig.Get(s.admin.StorageV1().CSIDrivers().Create(t.Context(), &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: o.Name},
		Spec:       storagev1.CSIDriverSpec{AttachRequired: &o.AttachRequired, RequiresRepublish: &republish},
	}, metav1.CreateOptions{}))(t)
	s.drivers = append(s.drivers, driver)
	return driver
}

// launchExec starts podexecd for the first time. It ends with the test.
func (s *storageNode) launchExec(t *testing.T) {
	t.Helper()
	s.metrics = fmt.Sprintf("127.0.0.1:%d", porttest.Reserve(t))
	rig.Must(t, os.MkdirAll(kubeletdir.Registry(s.path("kubelet")), 0o750))
	s.startExec(t)
	t.Cleanup(func() {
		if err := s.podexecd.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the output of podexecd ends with:\n%s", s.podexecd.Tail())
		}
	})
}

// startExec starts podexecd, for the first time or after its end. env are further environment variables, as KEY=VALUE.
func (s *storageNode) startExec(t *testing.T, env ...string) {
	t.Helper()
	args := slices.Concat(devnode.RoomFlags, devnode.HostFlags, []string{
		"--cgroups-per-qos=false", "--root-dir", s.path("exec"), "--kubelet-dir", s.path("kubelet"), "--listen", "unix://" + s.path("exec.sock"),
		"--podconfig-endpoint", "unix://" + s.path("socket"), "--container-runtime-endpoint", s.endpoint,
		"--pod-logs-dir", s.path("podlogs"), "--kubeconfig", s.path("kubeconfig"), "--hostname-override", s.name, "--node-ip=127.0.0.1",
		"--enable-server=false", "--healthz-port=0", "--metrics-address", s.metrics,
	})
	// env(1) becomes podexecd, under the same process ID.
	args = slices.Concat(env, []string{filepath.Join(s.programs, "podexecd")}, args)
	s.podexecd = rig.Get(control.StartProcess("podexecd", s.path("exec.log"), "env", args...))(t)
}

// bindClaim creates the PersistentVolume and its claim, as the controller of volumes leaves them.
func (s *storageNode) bindClaim(t *testing.T, pv, name, driver, handle string) {
	t.Helper()
	s.bindVolume(t, pv, name, s.mode, corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}})
}

// bindVolume is bindClaim of any mode and source.
func (s *storageNode) bindVolume(t *testing.T, pv, name string, mode corev1.PersistentVolumeMode, source corev1.PersistentVolumeSource) {
	t.Helper()
	var affinity *corev1.VolumeNodeAffinity
	if source.Local != nil {
		here := corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{s.name}}
		affinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{here}}},
		}}
	}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}
	claims := s.admin.CoreV1().PersistentVolumeClaims(namespace)
	claim := rig.Get(claims.Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, VolumeMode: &mode, VolumeName: pv, StorageClassName: new(string), Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}, metav1.CreateOptions{}))(t)
	rig.Get(s.admin.CoreV1().PersistentVolumes().Create(t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: pv},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes, VolumeMode: &mode, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef:               &corev1.ObjectReference{Namespace: namespace, Name: claim.Name, UID: claim.UID},
			PersistentVolumeSource: source, NodeAffinity: affinity,
		},
	}, metav1.CreateOptions{}))(t)
	claim.Status.Phase = corev1.ClaimBound
	rig.Get(claims.UpdateStatus(t.Context(), claim, metav1.UpdateOptions{}))(t)
}

// run creates a pod with the claims; with the first one if none is given.
func (s *storageNode) run(t *testing.T, name string, claims ...string) *corev1.Pod {
	t.Helper()
	if len(claims) == 0 {
		claims = []string{s.claim}
	}
	return s.create(t, s.admin, name, func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Image = "localhost/main:1"
		pod.Spec.TerminationGracePeriodSeconds = new(int64(1))
		for i, claim := range claims {
			volume := fmt.Sprintf("data-%d", i)
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
			}})
			c := &pod.Spec.Containers[0]
			if s.mode == corev1.PersistentVolumeBlock {
				c.VolumeDevices = append(c.VolumeDevices, corev1.VolumeDevice{Name: volume, DevicePath: "/dev/" + volume})
			} else {
				c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: "/" + volume})
			}
		}
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
	for _, d := range s.drivers {
		calls := rig.Get(calllog.Read(d.Options().Log))(t).Calls
		for _, problem := range slices.Concat(calllog.Check(calls), calllog.NothingLeft(calls)) {
			t.Error(problem)
		}
	}
	if mounts := string(rig.Get(os.ReadFile("/proc/self/mountinfo"))(t)); strings.Contains(mounts, s.path("kubelet")) {
		t.Errorf("something is mounted below %s:\n%s", s.path("kubelet"), mounts)
	}
	csi := "kubelet/plugins/kubernetes.io/csi/"
	for _, at := range []string{"exec/volumes/*", csi + "*.podstream.test/*", csi + "volumeDevices/*/*", "kubelet/pods/*"} {
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

// awaitUnrecorded waits until podexecd has no records: all volumes are unstaged.
func (s *storageNode) awaitUnrecorded(t *testing.T) {
	t.Helper()
	s.await(t, "podexecd has removed its records", func(context.Context) (bool, string) {
		left, err := filepath.Glob(s.path("exec/volumes/*"))
		return err == nil && len(left) == 0, fmt.Sprint(left, err)
	})
}
