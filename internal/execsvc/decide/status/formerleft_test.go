package status

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// TestRestartingWhileOneIsLeft: AllContainersRestarting stays true while a container of the status before is still
// there, an init container or another one.
func TestRestartingWhileOneIsLeft(t *testing.T) {
	pod := podOf(never, "init1", "a", "b")
	rules(v1.ContainerRestartPolicyNever, v1.ContainerRestartRuleActionRestartAllContainers, 42)(&pod.Spec.Containers[0])
	before := Generate(in(pod, has(exited("init1", 0), exited("a", 42), exited("b", 137))))
	for name, tc := range map[string]struct {
		has  *observed.Pod
		want v1.ConditionStatus
	}{
		"the init container and the trigger": {has(exited("init1", 0), exited("a", 42)), v1.ConditionTrue},
		"only the trigger":                   {has(exited("a", 42)), v1.ConditionTrue},
		"only another container":             {has(exited("b", 137)), v1.ConditionTrue},
		"only the init container":            {has(exited("init1", 0)), v1.ConditionTrue},
		"nothing":                            {has(), v1.ConditionFalse},
	} {
		input := in(pod, tc.has)
		input.Previous = &before
		got := Generate(input)
		if c := condition(got.Conditions, v1.AllContainersRestarting); c == nil || c.Status != tc.want {
			t.Errorf("left is %s: AllContainersRestarting %+v; want %s", name, c, tc.want)
		}
	}
}
