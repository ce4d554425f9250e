package execsvc

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/manager"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	"github.com/podstream/podstream/internal/execsvc/setup/cgroup"
	"github.com/podstream/podstream/internal/roottest"
)

// withCgroups sets cgroups for the node's pods, in a root of the test's own. It returns their manager.
func (n *node) withCgroups() *cgroup.Manager {
	n.t.Helper()
	roottest.Need(n.t, "creating cgroups")
	n.cgroups = cgroup.Config{PerQoS: true, Root: "/podstream-test-" + rand.Text()}
	n.t.Cleanup(func() {
		m, err := manager.New(&cgroups.Cgroup{Path: n.cgroups.Root, Resources: &cgroups.Resources{SkipDevices: true}})
		if err == nil {
			err = m.Destroy()
		}
		if err != nil {
			n.t.Errorf("remove the cgroups of the test: %v", err)
		}
	})
	m, err := cgroup.New(n.cgroups)
	if err != nil {
		n.t.Fatal(err)
	}
	return m
}

// A pod's directory is created before its cgroup, and removed after it: whenever podexecd is killed, the rest of the
// pod is found by the directory.
func TestDirectoryBeforeCgroup(t *testing.T) {
	n := newNode(t)
	made := n.withCgroups()
	pod := newPod("a", "web", "file")
	source := filepath.Join(t.TempDir(), "missing")
	pod.Spec.Volumes = []v1.Volume{
		{Name: "host", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: source, Type: ptr.To(v1.HostPathDirectory)}}},
	}
	pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "host", MountPath: "/host"}}
	hasCgroup := func() bool {
		t.Helper()
		_, err := made.Usage(pod)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return err == nil
	}
	l := n.start()
	l.deliver(ops(change(client.Add, true, pod)))
	l.await("a", "waits for its volume", func(p podview.Pod) bool { return p.Err != nil })
	if !exists(t, filepath.Join(n.podsDir, "a")) || hasCgroup() {
		t.Error("it has a cgroup before its directory is complete")
	}
	if err := os.Mkdir(source, 0o755); err != nil {
		t.Fatal(err)
	}
	l.awaitRunning("a")
	if !hasCgroup() {
		t.Error("it runs without a cgroup")
	}
	l.deliver(ops(change(client.Remove, true, pod)))
	l.awaitGone("a")
	if hasCgroup() || exists(t, filepath.Join(n.podsDir, "a")) {
		t.Error("something is left of it")
	}
}

// A burstable pod runs only when the cgroup of its QoS class has its share of the processor: no housekeeping is needed.
func TestShareOfQOSClass(t *testing.T) {
	n := newNode(t)
	n.withCgroups()
	n.housekeeping = time.Hour
	burstable, err := manager.New(&cgroups.Cgroup{Path: n.cgroups.Root + "/kubepods/burstable", Resources: &cgroups.Resources{SkipDevices: true}})
	if err != nil {
		t.Fatal(err)
	}
	path, want := filepath.Join(burstable.Path("cpu"), "cpu.shares"), "204"
	if cgroups.IsCgroup2UnifiedMode() {
		path, want = filepath.Join(burstable.Path(""), "cpu.weight"), "8"
	}
	l := n.start()
	for _, uid := range []types.UID{"a", "b"} {
		pod := newPod(uid, "web-"+string(uid), "file")
		pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m")}
		l.deliver(ops(change(client.Add, true, pod)))
	}
	l.awaitRunning("a")
	l.awaitRunning("b")
	got, err := os.ReadFile(path)
	if err != nil || strings.TrimSpace(string(got)) != want {
		t.Errorf("%s is %q, %v; want %s, the sum of both pods", path, got, err, want)
	}
}

// The event for a cgroup that can't be created has the kubelet's reason, which is not that of a volume.
func TestReasonOfFailedCgroup(t *testing.T) {
	err := newNode(t).withCgroups().Ensure(newPod("a/b", "web", "file"))
	if err == nil || !strings.HasPrefix(err.Error(), "unable to ensure pod container exists: ") {
		t.Fatalf("error %v", err)
	}
	if got := setUpReason(err); got != "FailedCreatePodContainer" {
		t.Errorf("reason %s", got)
	}
	if got := setUpReason(errors.New("no such volume")); got != "FailedMount" {
		t.Errorf("reason %s of a volume", got)
	}
}
