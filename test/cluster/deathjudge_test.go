package cluster

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/internal/kubeletdir"
	"github.com/podstream/podstream/test/csidriver/calllog"
	"github.com/podstream/podstream/test/rig"
)

// The UIDs of pods of another agent, each of which has a directory like that of a volume.
const (
	// neighbour has a volume that is mounted, in the place of a mount point.
	neighbour = "neighbour"
	// crossed has a mount around such a place.
	crossed = "crossed"
	// lookalike has a file there, and no mount.
	lookalike = "lookalike"
)

// foreign is the directory of a volume of which podexecd has no record.
func (m *mortal) foreign(uid string) string {
	return filepath.Join(kubeletdir.PodsDir(m.path("kubelet")), uid, "volumes", "kubernetes.io~csi", "foreign", "mount")
}

// foreignMounts are the mount points of the other agent.
func (m *mortal) foreignMounts() []string {
	return []string{m.foreign(neighbour), filepath.Dir(m.foreign(crossed))}
}

// makeForeign makes the mounts and directories of the other agent.
func (m *mortal) makeForeign(t *testing.T) {
	t.Helper()
	rig.Must(t, os.MkdirAll(m.foreign(lookalike), 0o750))
	for _, dir := range m.foreignMounts() {
		rig.Must(t, os.MkdirAll(dir, 0o750))
		rig.Must(t, unix.Mount("foreign", dir, "tmpfs", 0, "size=64k"))
		t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
		m.canary(t, dir)
	}
	m.canary(t, m.foreign(lookalike))
	m.dirs = append(m.dirs, m.foreign(crossed))
	rig.Must(t, os.Mkdir(m.foreign(crossed), 0o750))
}

func (m *mortal) canary(t *testing.T, dir string) (text string) {
	t.Helper()
	path, text := filepath.Join(dir, "canary"), rand.Text()
	rig.Must(t, os.WriteFile(path, []byte(text), 0o600))
	m.canaries[path] = text
	return text
}

// writeCanaries writes the canaries of the volumes while a pod has them.
func (m *mortal) writeCanaries(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	claim := m.path("exec/claims/default/static")
	m.until(t, "the static pod's claim has its directory", func(context.Context) (bool, string) {
		_, err := os.Stat(claim)
		return err == nil, fmt.Sprint(err)
	})
	m.canary(t, claim)
	for i := range m.volumes {
		v := &m.volumes[i]
		switch {
		case v.name == "local":
			v.canary = m.canary(t, m.path("local"))
		case v.block:
			v.canary = rand.Text()
			device := rig.Get(os.OpenFile(m.place(pod, v), os.O_WRONLY|os.O_SYNC, 0))(t)
			rig.Get(device.WriteString(v.canary))(t)
			rig.Must(t, device.Close())
		default:
			v.canary = rand.Text()
			rig.Must(t, os.WriteFile(m.place(pod, v), []byte(v.canary), 0o600))
		}
	}
	for _, dir := range rig.Get(filepath.Glob(filepath.Join(m.drivers[0].Options().Dir, "data", "*")))(t) {
		path := filepath.Join(dir, "canary")
		m.canaries[path] = string(rig.Get(os.ReadFile(path))(t))
	}
}

// place is the canary of a pod's volume of a driver, as the node has it.
func (m *mortal) place(pod *corev1.Pod, v *mortalVolume) string {
	dir := filepath.Join(kubeletdir.PodsDir(m.path("kubelet")), string(pod.UID))
	if v.block {
		return filepath.Join(dir, "volumeDevices", "kubernetes.io~csi", v.pv)
	}
	return filepath.Join(dir, "volumes", "kubernetes.io~csi", v.pv, "mount", "canary")
}

// lost returns the canaries that aren't intact.
func (m *mortal) lost() (lost []string) {
	for path, text := range m.canaries {
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			lost = append(lost, fmt.Sprintf("the canary %s has %q, %v; want %q", path, got, err, text))
		}
	}
	for _, dir := range m.dirs {
		if _, err := os.Stat(dir); err != nil {
			lost = append(lost, fmt.Sprintf("the directory of another agent: %v", err))
		}
	}
	return lost
}

func (m *mortal) checkCanaries(t *testing.T) {
	t.Helper()
	for _, lost := range m.lost() {
		t.Error(lost)
	}
}

// inside is what a running pod's container has of its volumes.
type inside struct {
	m    *mortal
	pod  *corev1.Pod
	root string
}

// inside finds the pod's container. On the simulated runtime there is none, so its volumes are those that the node has.
func (m *mortal) inside(t *testing.T, pod *corev1.Pod) *inside {
	t.Helper()
	in := &inside{m: m, pod: pod}
	if m.machine == nil {
		return in
	}
	m.until(t, "the pod's container is found", func(ctx context.Context) (bool, string) {
		list, err := m.direct.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
			State:         &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
			LabelSelector: map[string]string{"io.kubernetes.pod.uid": string(pod.UID)},
		}})
		if err != nil || len(list.GetContainers()) != 1 {
			return false, fmt.Sprintf("%v, %v", list.GetContainers(), err)
		}
		status, err := m.direct.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: list.GetContainers()[0].GetId(), Verbose: true})
		var info struct{ Pid int }
		if err == nil {
			err = json.Unmarshal([]byte(status.GetInfo()["info"]), &info)
		}
		in.root = fmt.Sprintf("/proc/%d/root", info.Pid)
		return err == nil && info.Pid > 0, fmt.Sprintf("%v, %v", status, err)
	})
	return in
}

// check checks the canaries in the volumes, and the loop devices.
func (in *inside) check(t *testing.T) {
	t.Helper()
	for i := range in.m.volumes {
		v := &in.m.volumes[i]
		path := filepath.Join(in.root, v.name, "canary")
		switch {
		case in.root == "" && v.name == "local":
			continue
		case in.root == "":
			path = in.m.place(in.pod, v)
		case v.block:
			path = filepath.Join(in.root, "dev", v.name)
		}
		got := make([]byte, len(v.canary))
		file, err := os.Open(path)
		if err == nil {
			_, err = io.ReadFull(file, got)
			_ = file.Close()
		}
		if err != nil || string(got) != v.canary {
			t.Errorf("while the pod %s runs, its volume %s has %q, %v; want %q", in.pod.Name, v.name, got, err, v.canary)
		}
	}
	// Those of the two images, and that by which podexecd holds the block device.
	if loops := in.m.loops(t); len(loops) < 3 {
		t.Errorf("while the pod %s runs, the loop devices are %v", in.pod.Name, loops)
	}
	if t.Failed() {
		t.FailNow()
	}
}

// mounts returns the mounts in --kubelet-dir, but for those of the other agent and of the static pod.
func (m *mortal) mounts(t *testing.T) (left []string) {
	t.Helper()
	for line := range strings.Lines(string(rig.Get(os.ReadFile("/proc/self/mountinfo"))(t))) {
		at := strings.Fields(line)[4]
		static := strings.Contains(at, "kubernetes.io~local-volume/static/") || !strings.Contains(at, "kubernetes.io")
		if strings.HasPrefix(at, m.path("kubelet")+"/") && !static && !slices.Contains(m.foreignMounts(), at) {
			left = append(left, at)
		}
	}
	return left
}

// checkUnused checks that nothing of a pod's volumes is left, and all canaries.
func (m *mortal) checkUnused(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if mounts := m.mounts(t); len(mounts) > 0 {
		t.Errorf("after the pod %s, there are mounted: %v", pod.Name, mounts)
	}
	if loops := m.loops(t); len(loops) > 0 {
		t.Errorf("after the pod %s, there are loop devices: %v", pod.Name, loops)
	}
	m.checkCanaries(t)
	if t.Failed() {
		t.FailNow()
	}
}

// finish removes the static pod, waits until podexecd has tried to clean up what isn't its own, and checks what is left.
func (m *mortal) finish(t *testing.T) {
	t.Helper()
	pod := m.next(t)
	m.until(t, "the last pod runs", m.runs(pod))
	m.inside(t, pod).check(t)
	remove(t, m.admin, pod.Name)
	m.until(t, "the last pod is gone, and its volumes are unstaged", m.ended(pod))
	if _, err := os.Stat(m.staticManifest()); err != nil {
		m.toggleStatic(t)
	}
	m.until(t, "the static pod runs", m.staticRuns)
	m.toggleStatic(t)
	m.awaitUnrecorded(t)
	m.await(t, "no pod of podexecd has a directory, and it has tried to remove those of the others", func(context.Context) (bool, string) {
		log := string(rig.Get(os.ReadFile(m.path("exec.log")))(t))
		for _, uid := range []string{neighbour, crossed, lookalike} {
			if !strings.Contains(log, uid) {
				return false, "podexecd doesn't speak of " + uid
			}
		}
		pods, err := os.ReadDir(kubeletdir.PodsDir(m.path("kubelet")))
		return err == nil && len(pods) == 3, fmt.Sprint(pods, err)
	})
	m.await(t, "the drivers have answered all calls", func(context.Context) (bool, string) {
		var left []string
		for _, d := range m.drivers {
			left = append(left, calllog.NothingLeft(rig.Get(calllog.Read(d.Options().Log))(t).Calls)...)
		}
		return len(left) == 0, strings.Join(left, "\n")
	})
	m.checkUnused(t, pod)
}

// plantCrossing starts a podexecd whose clean-up crosses mounts.
func (m *mortal) plantCrossing(t *testing.T) {
	m.podexecd.Kill()
	m.startExec(t, failpoint.Variable+"="+string(failpoint.CrossMounts))
	m.await(t, "podexecd has removed a directory on another mount", func(context.Context) (bool, string) {
		_, err := os.Stat(m.foreign(crossed))
		return os.IsNotExist(err), fmt.Sprint(err)
	})
	lost := m.lost()
	t.Logf("the canaries say: %q", lost)
	if len(lost) != 1 {
		t.Errorf("the canaries say %q; want the directory", lost)
	}
	m.podexecd.Kill()
	rig.Must(t, os.Mkdir(m.foreign(crossed), 0o750))
	m.startExec(t)
	m.await(t, "podexecd serves", func(ctx context.Context) (bool, string) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", m.metrics)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil, fmt.Sprint(err)
	})
}

// unmountForeign removes what the other agent has in --kubelet-dir: judge finds all that is left there.
func (m *mortal) unmountForeign(t *testing.T) {
	t.Helper()
	m.checkCanaries(t)
	for _, dir := range m.foreignMounts() {
		rig.Must(t, unix.Unmount(dir, 0))
	}
	for _, uid := range []string{neighbour, crossed, lookalike} {
		rig.Must(t, os.RemoveAll(filepath.Join(kubeletdir.PodsDir(m.path("kubelet")), uid)))
	}
}
