package usage

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/kubeletdir"
	"github.com/podstream/podstream/internal/roottest"
	"github.com/podstream/podstream/test/csidriver"
	"github.com/podstream/podstream/test/csidriver/calllog"
	"github.com/podstream/podstream/test/rig"
)

// A pod reads and writes a block volume of a CSI driver at its devicePath, over a kill -9 of podexecd. Another pod, whose claim is
// read-only, can only read it. Nothing is left.
func TestBlockClaim(t *testing.T) {
	roottest.Able(t, csidriver.CheckImages(t.Context()))
	kubelet, name := here.main.Path("kubelet"), "block.csi.podstream.test"
	driver := rig.Get(csidriver.Start(csidriver.Options{
		Name: name, NodeID: here.main.Name, Dir: t.TempDir(), Volumes: []string{"volume"}, Backing: csidriver.Image,
		Endpoint:     filepath.Join(kubeletdir.Plugins(kubelet), "block", "csi.sock"),
		Registration: filepath.Join(kubeletdir.Registry(kubelet), "block-reg.sock"),
	}))(t)
	t.Cleanup(driver.Stop)
	s := newSpace(t)
	drivers := s.site.Client.StorageV1().CSIDrivers()
	rig.Get(drivers.Create(t.Context(), &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(false)},
	}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() { rig.Must(t, drivers.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})) })
	s.apply(t, claimedVolume(s.name, name, "Block"))
	t.Cleanup(func() { s.site.kubectl(t, "delete", "pv", s.name, "--wait=false") })

	device := `, volumeDevices: [{name: data, devicePath: /dev/xvda}]`
	spec := `terminationGracePeriodSeconds: 1, volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]`
	s.applyPod(t, "first", toolsImage, idle+device, spec)
	s.awaitReady(t, "first")
	s.kubectl(t, "exec", "first", "--", "sh", "-c", "test -b /dev/xvda && echo canary > /dev/xvda")
	restart(t, s.node.Podexecd)
	s.awaitLog(t, driver, "NodeGetInfo", 2)
	read := func(pod string) {
		t.Helper()
		if got := s.kubectl(t, "exec", pod, "--", "sh", "-c", "read -r line < /dev/xvda && echo $line"); got != "canary\n" {
			t.Errorf("the device of pod %s begins with %q", pod, got)
		}
	}
	read("first")
	s.kubectl(t, "delete", "pod", "first")

	s.applyPod(t, "second", toolsImage, idle+device, strings.Replace(spec, "claimName: data", "claimName: data, readOnly: true", 1))
	s.awaitReady(t, "second")
	read("second")
	s.kubectl(t, "exec", "second", "--", "sh", "-c", "! echo changed > /dev/xvda")
	read("second")
	s.kubectl(t, "delete", "pod", "second")
	s.awaitLog(t, driver, "NodeUnstageVolume", 2)
	calls := rig.Get(calllog.Read(driver.Options().Log))(t).Calls
	for _, problem := range slices.Concat(calllog.Check(calls), calllog.NothingLeft(calls)) {
		t.Error(problem)
	}
	for _, at := range []string{"publish/*", "staging/*"} {
		if left := rig.Get(filepath.Glob(filepath.Join(kubelet, "plugins/kubernetes.io/csi/volumeDevices", at)))(t); len(left) > 0 {
			t.Errorf("%v are left", left)
		}
	}
}
