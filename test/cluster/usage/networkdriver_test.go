package usage

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/execsvc/cluster/apivolumes"
	"github.com/podstream/podstream/internal/kubeletdir"
	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/csidriver"
	"github.com/podstream/podstream/test/csidriver/attacher"
	"github.com/podstream/podstream/test/csidriver/calllog"
	"github.com/podstream/podstream/test/rig"
)

// networkDriver is a CSI driver as of storage on a network: several nodes have it, and its volume must be attached to one of them. A
// StatefulSet of its name has the claim of the volume.
type networkDriver struct {
	name string
	// on are the drivers of the nodes, by the nodes' names. All drivers, with that of the controller, have one log.
	on map[string]*csidriver.Driver
	// log is the path of the log.
	log string
}

// startNetworkDriver starts the drivers and an attacher. They end with the test, after the namespaces that are made later.
func startNetworkDriver(t *testing.T, name string, nodes ...*node) *networkDriver {
	t.Helper()
	d := &networkDriver{name: name, on: map[string]*csidriver.Driver{}}
	options := csidriver.Options{Name: d.csiName(), AttachRequired: true, Dir: t.TempDir(), Volumes: []string{"volume"}}
	for _, n := range nodes {
		o, kubelet := options, n.Path("kubelet")
		o.NodeID = "id-" + n.Name
		o.Endpoint = filepath.Join(kubeletdir.Plugins(kubelet), name, "csi.sock")
		o.Registration = filepath.Join(kubeletdir.Registry(kubelet), name+"-reg.sock")
		d.on[n.Name] = rig.Get(csidriver.Start(o))(t)
		t.Cleanup(d.on[n.Name].Stop)
		options.OtherNodes = append(options.OtherNodes, o.NodeID)
	}
	options.NodeID = "controller"
	controller := rig.Get(csidriver.Start(options))(t)
	t.Cleanup(controller.Stop)
	d.log = controller.Options().Log
	attaches := rig.Get(attacher.Start(here.Client, d.csiName(), controller.Options().Endpoint))(t)
	t.Cleanup(attaches.Stop)
	drivers := here.Client.StorageV1().CSIDrivers()
	rig.Get(drivers.Create(t.Context(), &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: d.csiName()}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(true)},
	}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		rig.Must(t, drivers.Delete(context.WithoutCancel(t.Context()), d.csiName(), metav1.DeleteOptions{}))
	})
	for at, driver := range d.on {
		select {
		case <-driver.Registered():
		case <-time.After(control.Bound):
			t.Fatalf("driver %s isn't registered at node %s", d.csiName(), at)
		}
	}
	return d
}

func (d *networkDriver) csiName() string { return d.name + ".csi.podstream.test" }

// deploy creates the StatefulSet of one pod, whose claim gets the driver's volume.
func (d *networkDriver) deploy(t *testing.T, s *space) {
	t.Helper()
	pv := s.name + "-" + d.name
	s.apply(t, fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolume
metadata: {name: %[1]s}
spec:
  capacity: {storage: 1Mi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  claimRef: {namespace: %[2]s, name: data-%[3]s-0}
  csi: {driver: %[4]s, volumeHandle: volume}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: %[3]s}
spec:
  serviceName: %[3]s
  selector: {matchLabels: {app: %[3]s}}
  template:
    metadata: {labels: {app: %[3]s}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: "%[5]s", %[6]s, volumeMounts: [{name: data, mountPath: /data}]}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], storageClassName: "", volumeName: %[1]s, resources: {requests: {storage: 1Mi}}}
`, pv, s.name, d.name, d.csiName(), toolsImage, idle))
	t.Cleanup(func() { s.site.kubectl(t, "delete", "pv", pv, "--wait=false") })
}

func (d *networkDriver) pod() string { return d.name + "-0" }

// awaitReadyOn waits until the StatefulSet's pod is ready on the node. It isn't the pod before.
func (d *networkDriver) awaitReadyOn(t *testing.T, s *space, n *node, before *corev1.Pod) *corev1.Pod {
	t.Helper()
	return s.awaitPod(t, d.pod(), "is ready on "+n.Name, func(pod *corev1.Pod) error {
		return when(isReady(pod) && pod.Spec.NodeName == n.Name && (before == nil || pod.UID != before.UID))
	})
}

// awaitAttachment waits until the volume is attached to the node, or until it is not.
func (d *networkDriver) awaitAttachment(t *testing.T, n *node, attached bool) {
	t.Helper()
	name := apivolumes.Attachment{Driver: d.csiName(), Handle: "volume"}.ObjectName(n.Name)
	what := fmt.Sprintf("the volume of %s is attached to %s: %t", d.name, n.Name, attached)
	rig.Get(await(t.Context(), here.attachments(), what, func(all map[string]*storagev1.VolumeAttachment) error {
		return when(attached == (all[name] != nil && all[name].Status.Attached))
	}))(t)
}

// calls returns the calls of all nodes and of the controller until now.
func (d *networkDriver) calls(t *testing.T) []*calllog.Call {
	t.Helper()
	return rig.Get(calllog.Read(d.log))(t).Calls
}

// of returns the calls of a method on a node. The controller is a node too.
func (d *networkDriver) of(t *testing.T, method, node string) []*calllog.Call {
	t.Helper()
	return slices.DeleteFunc(d.calls(t), func(c *calllog.Call) bool { return c.Method != method || c.Node != node })
}

// judge fails the test if the calls break a rule.
func (d *networkDriver) judge(t *testing.T) {
	t.Helper()
	for _, problem := range calllog.Check(d.calls(t)) {
		t.Error(problem)
	}
}

// judgeEnd is judge after the StatefulSet is removed, and with it its volume from all nodes.
func (d *networkDriver) judgeEnd(t *testing.T, s *space) {
	t.Helper()
	s.kubectl(t, "delete", "statefulset", d.name, "--cascade=foreground", timeout)
	rig.Get(await(t.Context(), here.attachments(), "nothing is attached", func(all map[string]*storagev1.VolumeAttachment) error {
		mine := maps.Collect(func(yield func(string, string) bool) {
			for name, va := range all {
				if va.Spec.Attacher == d.csiName() && !yield(name, va.Spec.NodeName) {
					return
				}
			}
		})
		if len(mine) > 0 {
			return fmt.Errorf("there are %v: %w", mine, errNo)
		}
		return nil
	}))(t)
	d.judge(t)
	for _, problem := range calllog.NothingLeft(d.calls(t)) {
		t.Error(problem)
	}
}

// only reports whether each problem is found by the check.
func only(problems []string, check string) bool {
	return !slices.ContainsFunc(problems, func(p string) bool { return !strings.HasPrefix(p, check+": ") })
}
