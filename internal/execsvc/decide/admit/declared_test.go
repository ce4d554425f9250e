package admit

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/events"
)

// A pod that needs features which the node doesn't declare is rejected with the kubelet's reason and message. A pod that
// was admitted before goes on, and gets no new sandbox.
func TestPodNeedsUndeclaredFeatures(t *testing.T) {
	const prefix = "Pod requires node features that are not available: "
	for missing, change := range map[string]func(*v1.PodSpec){
		"UserNamespacesHostNetworkSupport": func(*v1.PodSpec) {},
		"RestartAllContainersOnContainerExits, UserNamespacesHostNetworkSupport": func(s *v1.PodSpec) {
			s.Containers[0].RestartPolicyRules[0].Action = v1.ContainerRestartRuleActionRestartAllContainers
		},
		"VolumeBindMountOptions": func(s *v1.PodSpec) {
			s.HostNetwork, s.Containers[0].VolumeMounts[0].BindMountOptions = false, []string{"noexec"}
		},
		"": func(s *v1.PodSpec) { s.HostUsers = ptr.To(true) },
	} {
		node, pod := able(), fullPod()
		node.Declared = declares("UserNamespacesHostNetworkSupport", "RestartAllContainersOnContainerExits", "VolumeBindMountOptions")
		change(&pod.Spec)
		v := Check(pod, node, nil)
		if missing == "" {
			if len(v.Rejected) > 0 {
				t.Errorf("a pod that needs no feature is rejected: %+v", v.Rejected)
			}
			continue
		}
		if len(v.Rejected) != 1 || v.Rejected[0] != (Rejection{Reason: "PodFeatureUnsupported", Message: prefix + missing}) {
			t.Errorf("%s: rejected %+v", missing, v.Rejected)
		}
		if !Rejects(v.Rejected[0].Reason) || !v.ByRuntime() || v.Transient() {
			t.Errorf("%s: %+v; want a rejection that another runtime may end", missing, v)
		}
		v = Check(pod, node, []*v1.Pod{pod})
		want := Lack{Scope: NewSandbox, Reason: events.FailedCreatePodSandbox, Message: "spec: " + prefix + missing}
		if len(v.Rejected) > 0 || len(v.Lacks) == 0 || v.Lacks[len(v.Lacks)-1] != want {
			t.Errorf("%s: it was admitted before, and has %+v; want %+v", missing, v, want)
		}
	}
}

// A node of which nothing is known declares nothing.
func TestZeroNodeDeclaresNothing(t *testing.T) {
	pod := fullPod()
	pod.Spec.HostUsers = nil
	pod.Spec.Containers[0].RestartPolicyRules[0].Action = v1.ContainerRestartRuleActionRestartAllContainers
	node := able()
	node.Declared = Node{}.Declared
	wantRejection(t, "zero", Check(pod, node, nil), PodFeatureUnsupported, "Pod requires node features that are not available: "+
		"RestartAllContainersOnContainerExits", false)
}
