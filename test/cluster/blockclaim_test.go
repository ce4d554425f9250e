package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/kubeletdir"
	"github.com/podstream/podstream/internal/roottest"
	"github.com/podstream/podstream/test/csidriver"
	"github.com/podstream/podstream/test/csidriver/fault"
	"github.com/podstream/podstream/test/rig"
)

// link is where the runtime finds the pod's device.
func (s *storageNode) link(pod *corev1.Pod) string {
	return filepath.Join(kubeletdir.PodsDir(s.path("kubelet")), string(pod.UID), "volumeDevices", "kubernetes.io~csi", s.pv)
}

// begins checks how the content of the pod's device begins.
func (s *storageNode) begins(t *testing.T, pod *corev1.Pod, want string) {
	t.Helper()
	device := rig.Get(os.Open(s.link(pod)))(t)
	defer device.Close()
	var st unix.Stat_t
	rig.Must(t, unix.Fstat(int(device.Fd()), &st))
	got := make([]byte, len(want))
	rig.Get(io.ReadFull(device, got))(t)
	if st.Mode&unix.S_IFMT != unix.S_IFBLK || string(got) != want {
		t.Errorf("the pod's device has the mode %o, and begins with %q; want a block device with %q", st.Mode, got, want)
	}
}

// loops returns the loop devices that refer to files of the node.
func (s *storageNode) loops(t *testing.T) (backed []string) {
	t.Helper()
	for _, file := range rig.Get(filepath.Glob("/sys/block/loop*/loop/backing_file"))(t) {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), s.dir) {
			backed = append(backed, filepath.Base(filepath.Dir(filepath.Dir(file)))+": "+strings.TrimSpace(string(text)))
		}
	}
	return backed
}

// isLocal checks that the pod has a local block volume, of that device, and that it is held.
func (s *storageNode) isLocal(t *testing.T, pod *corev1.Pod, pv, device string) {
	t.Helper()
	at := filepath.Join(kubeletdir.PodsDir(s.path("kubelet")), string(pod.UID), "volumeDevices", "kubernetes.io~local-volume", pv)
	if to, err := os.Readlink(at); err != nil || to != device {
		t.Errorf("%s leads to %q, %v; want %s", at, to, err, device)
	}
	if n := holders(t, device); n != 1 {
		t.Errorf("%d loop devices hold %s; want podexecd's", n, device)
	}
}

// holders returns the number of loop devices that refer to a device.
func holders(t *testing.T, device string) (n int) {
	t.Helper()
	for _, file := range rig.Get(filepath.Glob("/sys/block/loop*/loop/backing_file"))(t) {
		if text, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(text)) == device {
			n++
		}
	}
	return n
}

// A pod has a driver's volume, and a local one, as block devices. podexecd is killed while the driver publishes it, and while the pod runs. Nothing is left.
func TestBlockClaim(t *testing.T) {
	if os.Getuid() == 0 {
		roottest.Able(t, csidriver.CheckImages(t.Context()))
	}
	s := newStorageNodeOf(t, corev1.PersistentVolumeBlock, "block", false)
	device, local := roottest.LoopDevice(t), s.pv+"-local"
	s.bindVolume(t, local, local, s.mode, corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: device}})
	images := rig.Get(filepath.Glob(filepath.Join(s.driver.Options().Dir, "images", "*")))(t)
	var pod *corev1.Pod
	check(t, "podexecd is killed while the driver publishes: the call is repeated, and the pod runs with its device", func(t *testing.T) {
		image := rig.Get(os.OpenFile(images[0], os.O_WRONLY, 0))(t)
		rig.Get(image.WriteString("alive"))(t)
		rig.Must(t, image.Close())
		id := rig.Get(s.driver.Faults.Add(t.Context(), fault.Fault{Method: "NodePublishVolume", Action: fault.Hold, Times: 1}))(t)
		pod = s.run(t, "block", s.claim, local)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := s.driver.Faults.Await(ctx, id, 1); err != nil {
			t.Fatalf("%v; podexecd says\n%s", err, s.podexecd.Tail())
		}
		s.podexecd.Kill()
		s.startExec(t)
		s.await(t, "podexecd repeats the call", func(context.Context) (bool, string) {
			n := len(s.calls(t, "NodePublishVolume"))
			return n >= 2, fmt.Sprint(n)
		})
		rig.Must(t, s.driver.Faults.Release(t.Context(), id))
		s.awaitRunning(t, pod)
		s.begins(t, pod, "alive")
		s.isLocal(t, pod, local, device)
	})
	check(t, "podexecd is killed and started: the pod goes on, its device is held, and nothing is called", func(t *testing.T) {
		methods := []string{"NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"}
		before, held := len(s.calls(t, methods...)), len(s.loops(t))
		infos := len(s.calls(t, "NodeGetInfo"))
		s.podexecd.Kill()
		s.startExec(t)
		s.awaitRunning(t, pod)
		s.await(t, "podexecd knows the driver again", func(context.Context) (bool, string) {
			n := len(s.calls(t, "NodeGetInfo"))
			return n > infos, fmt.Sprint(n)
		})
		if after := s.calls(t, methods...); len(after) != before {
			t.Errorf("after the restart: %v", after)
		}
		// The driver's own loop device, and the one that holds it.
		if loops := s.loops(t); held != 2 || len(loops) != 2 {
			t.Errorf("loop devices %v; want the driver's and podexecd's", loops)
		}
		s.begins(t, pod, "alive")
		s.isLocal(t, pod, local, device)
	})
	check(t, "the pod ends, and nothing is left", func(t *testing.T) {
		remove(t, s.admin, pod.Name)
		s.awaitGone(t, pod)
		s.awaitCall(t, "NodeUnstageVolume", 1)
		s.awaitUnrecorded(t)
		s.judge(t)
		if loops := s.loops(t); len(loops) > 0 {
			t.Errorf("loop devices are left: %v", loops)
		}
		if n := holders(t, device); n != 0 {
			t.Errorf("%d loop devices hold the local volume", n)
		}
	})
}
