package execsvc

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/decide/declared"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

// declares has the node declare the features of these gates, and no others.
func (n *node) declares(gates ...string) {
	n.t.Helper()
	rules, err := declared.New("v1.37.2", func(gate string) bool { return slices.Contains(gates, gate) })
	if err != nil {
		n.t.Fatal(err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.declared = rules.Of(nil)
}

// withRestartAll returns the pod with a rule that restarts all its containers.
func withRestartAll(pod *v1.Pod) *v1.Pod {
	never := v1.ContainerRestartPolicyNever
	pod.Spec.Containers[0].RestartPolicy = &never
	pod.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{
		Action:    v1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
	}}
	return pod
}

// A pod that needs a feature which the node doesn't declare is rejected, with the kubelet's reason and message. It runs
// on a node that declares the feature.
func TestPodNeedsUndeclaredFeature(t *testing.T) {
	const missing = "Pod requires node features that are not available: RestartAllContainersOnContainerExits"
	n := newNode(t)
	l := n.start()
	l.deliver(ops(change(client.Add, true, withRestartAll(newPod("a", "web", "api")))))
	p := l.await("a", "is rejected", func(p podview.Pod) bool { return p.Status != nil && p.Status.Phase == v1.PodFailed })
	if p.Status.Reason != "PodFeatureUnsupported" || p.Status.Message != "Pod was rejected: "+missing {
		t.Errorf("reason %q, message %q", p.Status.Reason, p.Status.Message)
	}
	l.wantEvent("a", "PodFeatureUnsupported", "Warning "+missing)
	n.wantUnchanged()

	n.declares("RestartAllContainersOnContainerExits")
	l.deliver(ops(change(client.Add, true, withRestartAll(newPod("b", "also", "api")))))
	l.awaitRunning("b")
}

// An update that needs a feature which the node doesn't declare has an event, and is carried out. Where the feature is
// declared, there is no event.
func TestUpdateNeedsUndeclaredFeature(t *testing.T) {
	n := newNode(t)
	l := n.start()
	l.deliver(ops(change(client.Add, true, whole("a", 1, "1", "256Mi"))))
	l.awaitWhole(whole("a", 1, "1", "256Mi"))
	n.declares("InPlacePodLevelResourcesVerticalScaling")
	l.deliver(ops(change(client.Update, true, whole("a", 2, "2", "256Mi"))))
	l.awaitWhole(whole("a", 2, "2", "256Mi"))
	if got := l.recorded("a", events.FailedNodeDeclaredFeaturesCheck); len(got) > 0 {
		t.Errorf("the feature is declared, and there are events %q", got)
	}
	n.declares()
	l.deliver(ops(change(client.Update, true, whole("a", 3, "1", "256Mi"))))
	l.awaitWhole(whole("a", 3, "1", "256Mi"))
	l.wantEvent("a", "FailedNodeDeclaredFeaturesCheck",
		"Warning Pod requires node features that are not available: InPlacePodLevelResourcesVerticalScaling")
}
