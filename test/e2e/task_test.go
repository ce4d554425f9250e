package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/cri/containerd"
	"github.com/podstream/podstream/test/devnode"
)

// A podexecd that is killed during a StartContainer may leave a task in containerd that no request of CRI deletes
// (containerd issue 11037). The next podexecd replaces such a container, or removes it with its pod. The pod's other
// container, in the same shim, isn't restarted.
func TestTaskOfInterruptedStart(t *testing.T) {
	node := startNode(t, devnode.Containerd2)
	r := newRig(t, node)
	r.write("web.yaml", manifest("web", "web: sleep", "side: sleep"))
	uid := r.awaitRunning("web")
	web, side := r.byName(uid, "web"), r.byName(uid, "side")
	tasks, err := containerd.NewTasks(node.Endpoint(), time.Minute)
	check(t, err)
	defer tasks.Close()
	if err := tasks.Delete(t.Context(), web.GetId()); err == nil {
		t.Error("containerd deletes the task of a container that runs")
	}

	check(t, r.Podexecd.Kill())
	stuck := r.interruptedStart(side)
	check(t, r.Podexecd.Start())
	r.eventually("the container is replaced", func() error {
		for _, c := range r.containers(uid) {
			if c.GetId() == stuck {
				return fmt.Errorf("container %s is still there", stuck)
			}
		}
		return nil
	})
	r.awaitRunning("web")
	if now := r.byName(uid, "web"); now.GetId() != web.GetId() || now.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Errorf("the other container was %s, and is now %v", web.GetId(), now)
	}

	check(t, r.Podexecd.Kill())
	r.interruptedStart(r.byName(uid, "side"))
	r.remove("web.yaml")
	check(t, r.Podexecd.Start())
	r.eventually("the pod is gone", r.empty)
	dirs, err := node.CgroupDirs()
	check(t, err)
	for _, dir := range dirs {
		if strings.Contains(dir, stuck) {
			t.Errorf("the cgroup %s is left", dir)
		}
	}
}

// byName returns the only container of that name in the pod.
func (r *rig) byName(uid, name string) *runtimeapi.Container {
	r.t.Helper()
	var found []*runtimeapi.Container
	for _, c := range r.containers(uid) {
		if c.GetMetadata().GetName() == name {
			found = append(found, c)
		}
	}
	if len(found) != 1 {
		r.t.Fatalf("containers %s: %v; want one", name, found)
	}
	return found[0]
}

// interruptedStart replaces the container by one that an interrupted StartContainer left: it has never run, but has a
// task. It returns the new ID.
func (r *rig) interruptedStart(old *runtimeapi.Container) (id string) {
	r.t.Helper()
	ctx := r.t.Context()
	_, err := r.CRI.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: old.GetId()})
	check(r.t, err)
	_, err = r.CRI.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: old.GetId()})
	check(r.t, err)
	box, err := r.CRI.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: old.GetPodSandboxId()})
	check(r.t, err)
	created, err := r.CRI.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: old.GetPodSandboxId(),
		Config: &runtimeapi.ContainerConfig{
			Metadata: old.GetMetadata(), Image: old.GetImage(), Labels: old.GetLabels(), Annotations: old.GetAnnotations(), Args: []string{"sleep"},
			Linux: &runtimeapi.LinuxContainerConfig{},
		},
		SandboxConfig: &runtimeapi.PodSandboxConfig{
			Metadata: box.GetStatus().GetMetadata(), Linux: &runtimeapi.LinuxPodSandboxConfig{CgroupParent: r.Node.CgroupRoot()},
		},
	})
	check(r.t, err)
	id = created.GetContainerId()
	check(r.t, r.Node.CreateTask(ctx, id))
	_, err = r.CRI.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: id})
	if status.Code(err) != codes.FailedPrecondition {
		r.t.Fatalf("the removal of a container with a task answers %v; want FailedPrecondition", err)
	}
	return id
}
