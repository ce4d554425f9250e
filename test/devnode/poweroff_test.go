package devnode

import (
	"testing"

	internalapi "k8s.io/cri-api/pkg/apis"
)

// TestPowerOff: nothing of a node with a pod runs afterwards, and Close clears the rest.
func TestPowerOff(t *testing.T) {
	onEachContainerd(t, func(t *testing.T, node *Node, cri internalapi.RuntimeService) {
		pod, err := runPod(t.Context(), cri, node.Path("pods"), "cut")
		if err != nil {
			t.Fatal(err)
		}
		task, err := node.taskPID(pod.container)
		if err != nil {
			t.Fatal(err)
		}
		if err := node.PowerOff(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-node.Runtime().Done():
		default:
			t.Error("containerd runs")
		}
		if shims, err := node.Shims(); err != nil || len(shims) > 0 {
			t.Errorf("the shims %v run, %v", shims, err)
		}
		if !isZombie(task) {
			t.Errorf("the container's process %d runs", task)
		}
		if err := node.Close(); err != nil {
			t.Error(err)
		}
		if left := traces(t, node.dir, pod); len(left) > 0 {
			t.Errorf("%v are left", left)
		}
	})
}
