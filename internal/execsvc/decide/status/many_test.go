package status

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// The cost of a status grows with the number of containers, and not with its square: all statuses wait for each other.
func TestManyContainers(t *testing.T) {
	cost := func(n int) float64 {
		pod := podOf(always)
		var made []observed.Container
		for i := range n {
			name := fmt.Sprintf("container-%06d", i)
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, v1.Container{Name: "init-" + name, Image: "img"})
			pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: name, Image: "img"})
			made = append(made, running(name))
		}
		pod.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{Action: v1.ContainerRestartRuleActionRestartAllContainers}}
		input := in(pod, has(made...))
		before := Generate(input)
		if len(before.InitContainerStatuses) != n || before.InitContainerStatuses[0].State.Terminated == nil || before.Phase != v1.PodRunning {
			t.Fatalf("%d containers: phase %s, the first is %+v", n, before.Phase, before.InitContainerStatuses[0])
		}
		input.Previous = &before
		return testing.AllocsPerRun(1, func() { Generate(input) })
	}
	if few, many := cost(50), cost(200); many > 6*few {
		t.Errorf("%.0f allocations for 100 containers, and %.0f for 400", few, many)
	}
}
