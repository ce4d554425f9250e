package usage

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/kubeletdir"
	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/csidriver"
	"github.com/podstream/podstream/test/csidriver/calllog"
	"github.com/podstream/podstream/test/rig"
)

// claimedVolume is a PersistentVolume of the driver, of that mode, for the namespace's claim "data". The controllers of the cluster bind them.
func claimedVolume(namespace, driver, mode string) string {
	return `
apiVersion: v1
kind: PersistentVolume
metadata: {name: ` + namespace + `}
spec:
  capacity: {storage: 1Mi}
  accessModes: [ReadWriteOnce]
  volumeMode: ` + mode + `
  persistentVolumeReclaimPolicy: Retain
  claimRef: {namespace: ` + namespace + `, name: data}
  csi: {driver: ` + driver + `, volumeHandle: volume, fsType: ext4}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: ` + namespace + `}
spec:
  accessModes: [ReadWriteOnce]
  volumeMode: ` + mode + `
  storageClassName: ""
  volumeName: ` + namespace + `
  resources: {requests: {storage: 1Mi}}
`
}

// Pods read and write a volume of a CSI driver: by its path and by a subPath, with their group, over a kill -9 of podexecd, and after
// the first pod has ended. An inline volume ends with its pod. Nothing is left.
func TestClaim(t *testing.T) {
	kubelet, name := here.main.Path("kubelet"), "claim.csi.podstream.test"
	// It ends after the pods, which are removed with the namespace.
	driver := rig.Get(csidriver.Start(csidriver.Options{
		Name: name, NodeID: here.main.Name, Dir: t.TempDir(), Volumes: []string{"volume"},
		Endpoint:     filepath.Join(kubeletdir.Plugins(kubelet), "claim", "csi.sock"),
		Registration: filepath.Join(kubeletdir.Registry(kubelet), "claim-reg.sock"),
	}))(t)
	t.Cleanup(driver.Stop)
	s := newSpace(t)
	drivers := s.site.Client.StorageV1().CSIDrivers()
	policy := storagev1.FileFSGroupPolicy
	rig.Get(drivers.Create(t.Context(), &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSIDriverSpec{
		AttachRequired: new(false), FSGroupPolicy: &policy, PodInfoOnMount: new(true),
		VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral},
	}}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() { rig.Must(t, drivers.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})) })
	s.apply(t, claimedVolume(s.name, name, "Filesystem"))
	t.Cleanup(func() { s.site.kubectl(t, "delete", "pv", s.name, "--wait=false") })

	mounts := `, volumeMounts: [{name: data, mountPath: /data}, {name: data, mountPath: /sub, subPath: inner}, {name: scratch, mountPath: /scratch}]`
	spec := `terminationGracePeriodSeconds: 1, securityContext: {fsGroup: 4711}, volumes: [{name: data, persistentVolumeClaim: {claimName: data}},
		{name: scratch, csi: {driver: ` + name + `}}]`
	s.applyPod(t, "first", toolsImage, idle+mounts, spec)
	first := s.awaitReady(t, "first")
	s.kubectl(t, "exec", "first", "--", "sh", "-c", "echo canary > /data/file && echo inner > /sub/file && echo scratch > /scratch/file")
	if got := s.kubectl(t, "exec", "first", "--", "cat", "/data/inner/file"); got != "inner\n" {
		t.Errorf("the file of the subPath has %q", got)
	}
	var file unix.Stat_t
	at := filepath.Join(kubeletdir.PodsDir(kubelet), string(first.UID), "volumes", "kubernetes.io~csi", s.name, "mount", "file")
	if rig.Must(t, unix.Stat(at, &file)); file.Gid != 4711 {
		t.Errorf("the file has the group %d; want the pod's fsGroup", file.Gid)
	}

	restart(t, s.node.Podexecd)
	s.awaitLog(t, driver, "NodeGetInfo", 2)
	if got := s.kubectl(t, "exec", "first", "--", "cat", "/data/file"); got != "canary\n" {
		t.Errorf("after a restart of podexecd the file has %q", got)
	}
	if again := s.awaitReady(t, "first"); again.Status.ContainerStatuses[0].ContainerID != first.Status.ContainerStatuses[0].ContainerID {
		t.Error("the restart of podexecd restarted the container")
	}

	s.kubectl(t, "delete", "pod", "first")
	s.applyPod(t, "second", toolsImage, idle+mounts, spec)
	s.awaitReady(t, "second")
	if got := s.kubectl(t, "exec", "second", "--", "sh", "-c", "cat /data/file; echo /scratch/*"); got != "canary\n/scratch/*\n" {
		t.Errorf("the second pod finds %q; want the first one's file, and nothing in the inline volume", got)
	}
	s.kubectl(t, "delete", "pod", "second")
	rig.Must(t, untilNil(t, "podexecd has no records of volumes", func() error {
		left, err := filepath.Glob(s.node.Path("podexecd/volumes/*"))
		if err != nil {
			return err
		}
		return when(len(left) == 0)
	}))
	calls := rig.Get(calllog.Read(driver.Options().Log))(t).Calls
	for _, problem := range slices.Concat(calllog.Check(calls), calllog.NothingLeft(calls)) {
		t.Error(problem)
	}
	if mounts := string(rig.Get(os.ReadFile("/proc/self/mountinfo"))(t)); strings.Contains(mounts, kubelet+"/plugins") {
		t.Errorf("something is still staged:\n%s", mounts)
	}
}

// awaitLog waits until a call has succeeded n times.
func (s *space) awaitLog(t *testing.T, driver *csidriver.Driver, method string, n int) {
	t.Helper()
	rig.Must(t, untilNil(t, "the driver has answered "+method, func() error {
		log, err := calllog.Read(driver.Options().Log)
		if err != nil {
			return err
		}
		if len(calllog.Succeeded(log.Of(method))) < n {
			return control.ErrNotYet
		}
		return nil
	}))
}
