package usage

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/machine/logind/logindtest"
	"github.com/podstream/podstream/test/rig"
)

// A shutdown of the machine, as the cluster sees it: the node isn't ready, its pods end, and new ones are rejected. No
// static pod starts again, also if podconfigd is restarted or a manifest changes. A cancellation ends all that.
func TestNodeShutdown(t *testing.T) {
	bus := logindtest.NewBus(t)
	login := logindtest.NewLogin(bus, time.Minute)
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+bus.Socket)
	machine := newMachine(t, "shutdown-machine", here.BinDir())
	n := newNode(t, "shutdown", func(n *node) { n.Machine = machine }, hurried, func(n *node) {
		n.Config += "shutdownGracePeriod: 20s\nshutdownGracePeriodCriticalPods: 10s\n"
	})
	s := newSpace(t, n)
	s.applyPod(t, "owned", sampleImage, idle, "terminationGracePeriodSeconds: 1")
	for _, name := range []string{"same", "changed"} {
		n.addManifest(t, name, staticPodOf(name, s.name, "1"))
	}
	all := []string{"owned", "same-shutdown", "changed-shutdown"}
	for _, name := range all {
		s.awaitReady(t, name)
	}
	rig.Must(t, untilNil(t, "a lock is held", func() error { return when(login.Locks() == 1) }))
	o := observe(t, n)

	began := time.Now()
	goesOn := login.Shutdown()
	n.awaitCondition(t, corev1.ConditionFalse, "KubeletNotReady", "node is shutting down")
	const message = "Pod was terminated in response to imminent node shutdown."
	for _, name := range all {
		s.awaitEnded(t, name, "", "Terminated", message)
	}
	<-goesOn
	t.Logf("the shutdown took %v", time.Since(began).Round(time.Millisecond))
	if c := podCondition(s.awaitEnded(t, "owned", "", "Terminated", message), corev1.DisruptionTarget); c == nil ||
		c.Status != corev1.ConditionTrue || c.Reason != corev1.PodReasonTerminationByKubelet || c.Message != message {
		t.Errorf("the condition DisruptionTarget of the API server's pod is %+v", c)
	}

	const rejected = "Pod was rejected: Pod was rejected as the node is shutting down."
	s.applyPod(t, "late", sampleImage, idle, "terminationGracePeriodSeconds: 1, nodeName: "+n.Name)
	s.awaitEnded(t, "late", "", "NodeShutdown", rejected)
	restart(t, n.Podconfigd)
	n.addManifest(t, "changed", staticPodOf("changed", s.name, "2"))
	s.awaitEnded(t, "changed-shutdown", "2", "NodeShutdown", rejected)
	n.wantNothingRuns(t, o)

	login.Cancel()
	n.awaitCondition(t, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status")
	rig.Must(t, n.AwaitReady(t.Context())) // without its taint
	s.applyPod(t, "next", sampleImage, idle, "terminationGracePeriodSeconds: 1")
	for _, name := range []string{"next", "same-shutdown", "changed-shutdown"} {
		s.awaitReady(t, name)
	}
	s.awaitEnded(t, "owned", "", "Terminated", message)
	s.awaitEnded(t, "late", "", "NodeShutdown", rejected)
	rig.Must(t, untilNil(t, "a lock is held again", func() error { return when(login.Locks() == 1) }))
}

// awaitCondition waits until the node's condition Ready is this one.
func (n *node) awaitCondition(t *testing.T, status corev1.ConditionStatus, reason, message string) {
	t.Helper()
	rig.Get(await(t.Context(), here.nodes(), fmt.Sprintf("Ready is %s, %s: %s", status, reason, message), func(nodes map[string]*corev1.Node) error {
		if nodes[n.Name] == nil {
			return errNone
		}
		c := nodeCondition(nodes[n.Name], corev1.NodeReady)
		if c == nil || c.Status != status || c.Reason != reason || c.Message != message {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	}))(t)
}

// awaitEnded waits until a pod of that version has failed for that reason.
func (s *space) awaitEnded(t *testing.T, name, version, reason, message string) *corev1.Pod {
	t.Helper()
	return s.awaitPod(t, name, fmt.Sprintf("has failed: %s: %s", reason, message), func(pod *corev1.Pod) error {
		if pod.Status.Phase != corev1.PodFailed || pod.Status.Reason != reason || pod.Status.Message != message || isReady(pod) ||
			version != "" && pod.Labels["version"] != version {
			return fmt.Errorf("%w: %s: %s, version %s", errNo, pod.Status.Reason, pod.Status.Message, pod.Labels["version"])
		}
		return nil
	})
}

// wantNothingRuns expects that the runtime has no sandbox and no container that runs.
func (n *node) wantNothingRuns(t *testing.T, o *observer) {
	t.Helper()
	sandboxes, containers, err := o.runtime(t.Context())
	rig.Must(t, err)
	for _, s := range sandboxes {
		if s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY {
			t.Errorf("the sandbox of %s runs", s.GetMetadata().GetName())
		}
	}
	for _, c := range containers {
		if c.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING || c.GetState() == runtimeapi.ContainerState_CONTAINER_CREATED {
			t.Errorf("container %s of %s runs", c.GetMetadata().GetName(), c.GetLabels()["io.kubernetes.pod.name"])
		}
	}
}
