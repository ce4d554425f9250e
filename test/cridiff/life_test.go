//go:build kubelet

package cridiff

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// TestLives runs pods that call what an agent does besides starting and stopping containers: probes, hooks, the rotation of
// logs, failed pulls and starts, and the removal of what has ended.
func TestLives(t *testing.T) {
	node := Node{Config: fmt.Sprintf("containerLogMaxSize: \"%d\"\ncontainerLogMonitorInterval: 3s\n", longLog)}
	table := comparePods(t, Site{Node: node, Removals: true, Rotate: true}, lives())
	for _, method := range []string{"ExecSync", "ReopenContainerLog", "RemoveContainer", "RemovePodSandbox", "UpdateRuntimeConfig"} {
		if table.ByMethod[method] == 0 {
			t.Errorf("no %s was compared", method)
		}
	}
	for _, rule := range []string{"hookOutlastsGrace", "hostsFileOfEndedPod"} {
		if table.ByRule[rule] == 0 {
			t.Errorf("rule %s applies to no difference", rule)
		}
	}
}

func lives() []*v1.Pod {
	hooks := life("hooks")
	c := &hooks.Spec.Containers[0]
	c.Lifecycle = &v1.Lifecycle{PostStart: runs("/sample", "write", "/started", "yes"), PreStop: runs("/sample", "write", "/stopped", "yes")}
	hooks.Spec.Containers = append(hooks.Spec.Containers, v1.Container{Name: "second", Image: "second:1"})
	// A preStop hook takes a part of the grace period.
	slow := life("slow-hook")
	slow.Spec.TerminationGracePeriodSeconds = ptr.To[int64](3)
	slow.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: runs("/sample", "sleep", "5s")}
	none := life("no-grace")
	none.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
	none.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: runs("/sample", "exit", "0")}
	probes := life("probes")
	c = &probes.Spec.Containers[0]
	c.StartupProbe = &v1.Probe{PeriodSeconds: 1, ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"/sample", "exit", "0"}}}}
	c.LivenessProbe = &v1.Probe{
		PeriodSeconds: 1, TimeoutSeconds: 3, ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"/sample", "seq", "exit", "0"}}},
	}
	c.ReadinessProbe = &v1.Probe{PeriodSeconds: 1, ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"/sample", "exit", "2"}}}}
	sidecar := life("sidecar")
	sidecar.Spec.InitContainers = []v1.Container{{
		Name: "sidecar", Image: "sidecar:1", RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways),
		Lifecycle: &v1.Lifecycle{PostStart: runs("/sample", "exit", "0"), PreStop: runs("/sample", "seq", "exit", "0")},
	}}
	missing := life("no-program")
	missing.Spec.Containers[0].Command = []string{"/missing"}
	missing.Spec.RestartPolicy = v1.RestartPolicyNever
	unpulled := life("no-image")
	unpulled.Spec.Containers[0].Image = "none.example/app:1"
	invalid := life("invalid-image")
	invalid.Spec.Containers[0].Image = "App:1"
	return []*v1.Pod{hooks, slow, none, probes, sidecar, missing, unpulled, invalid}
}

func life(name string) *v1.Pod {
	p := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app", Image: name + ":1"}}}}
	p.APIVersion, p.Kind, p.Name, p.Namespace, p.UID = "v1", "Pod", "web", name, types.UID(name)
	return p
}
