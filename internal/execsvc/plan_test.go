package execsvc

import (
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/decide/adoption"
)

// planOf returns the plan of the node's pods when the API server has these ones, by UID.
func (n *node) planOf(desired ...*v1.Pod) map[string]adoption.Action {
	n.t.Helper()
	sandboxes, err := n.CRI.ListPodSandbox(n.t.Context(), nil)
	if err != nil {
		n.t.Fatal(err)
	}
	containers, err := n.CRI.ListContainers(n.t.Context(), nil)
	if err != nil {
		n.t.Fatal(err)
	}
	rule := adoption.Rule{Agent: "me", Directories: adoption.Directories{IsDirectory: func(string) bool { return false }}}
	pods, ignored := rule.Split(sandboxes, containers)
	for _, p := range pods {
		for i := range p.Sandboxes {
			answer, err := n.CRI.PodSandboxStatus(n.t.Context(), p.Sandboxes[i].ID, false)
			if err != nil {
				n.t.Fatal(err)
			}
			p.Sandboxes[i].SetStatus(answer.GetStatus())
		}
	}
	plan := map[string]adoption.Action{}
	for _, p := range append(adoption.Plan(adoption.Input{Pods: pods, API: adoption.Source{Known: true, Pods: desired}}), ignored...) {
		plan[p.UID] = p.Action
	}
	return plan
}

// runningContainers returns the IDs of the running containers.
func (n *node) runningContainers() []string {
	n.t.Helper()
	list, err := n.CRI.ListContainers(n.t.Context(), &runtimeapi.ContainerFilter{State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING}})
	if err != nil {
		n.t.Fatal(err)
	}
	var ids []string
	for _, c := range list {
		ids = append(ids, c.GetId())
	}
	return ids
}

// What the plan says of each pod is what the agent does with it: only the containers of pods that are kept go on, and each pod that is
// restarted has another container.
func TestPlanComesTrue(t *testing.T) {
	n := newNode(t)
	left := map[string]string{}
	former := []*v1.Pod{
		newPod("kept", "kept", "api"), newPod("image", "image", "api"), newPod("gone", "gone", "api"), newPod("former", "again", "api"),
		newPod("deleted", "deleted", "api"), newPod("failed", "failed", "api"), newPod("network", "network", "api"), newPod("claim", "claim", "api"),
	}
	for i, id := range n.leave(former...) {
		left[string(former[i].UID)] = id
	}
	kept, image, again, deleted, failed, network := former[0], former[1].DeepCopy(), newPod("latter", "again", "api"), former[4].DeepCopy(), former[5].DeepCopy(), former[6].DeepCopy()
	image.Spec.Containers[0].Image = "localhost/sample:2"
	deleted.DeletionTimestamp, deleted.DeletionGracePeriodSeconds = ptr.To(metav1.Now()), ptr.To[int64](1)
	failed.Status.Phase = v1.PodFailed
	network.Spec.HostNetwork = true
	claim := withCephFS(former[7])
	claim.Spec.Containers[0].Image = "localhost/sample:2"
	desired := []*v1.Pod{kept, image, again, deleted, failed, network, claim}

	plan := n.planOf(desired...)
	want := map[string]adoption.Action{
		"kept": adoption.Keep, "image": adoption.Restart, "gone": adoption.Remove, "former": adoption.Restart, "deleted": adoption.Remove,
		"failed": adoption.Remove, "network": adoption.Restart, "claim": adoption.Keep,
	}
	if !maps.Equal(plan, want) {
		t.Errorf("the plan is %v; want %v", plan, want)
	}

	l := n.start()
	for _, pod := range desired {
		l.deliver(ops(change(client.Add, true, pod)))
	}
	l.deliver(synced(client.Source{Name: "api", Ready: true}))
	l.housekeep()
	restarted := 0
	for _, action := range plan {
		if action == adoption.Restart {
			restarted++
		}
	}
	eventually(t, "the plan comes true", func() bool {
		running := n.runningContainers()
		for uid, id := range left {
			if slices.Contains(running, id) != (plan[uid] == adoption.Keep) {
				return false
			}
		}
		return len(running) == 2+restarted
	})
	for _, call := range n.takeChanges() {
		for _, uid := range []string{"kept", "claim"} {
			if strings.HasPrefix(call, "StopContainer "+left[uid]) {
				t.Errorf("the container of pod %s, which was to be kept, was stopped: %s", uid, call)
			}
		}
	}
}
