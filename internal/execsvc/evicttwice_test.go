package execsvc

import (
	"context"
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/decide/status"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

// evictInTwoSteps evicts the pod, whose containers end with 0 while its sandbox can't be stopped. If restarted is set,
// another agent goes on. It returns the agent and the ID of the container.
func evictInTwoSteps(t *testing.T, n *node, source string, restarted bool) (l *testAgent, container string) {
	t.Helper()
	l = n.start()
	pod := newPod("a", "web", source, "on-term", "/told", "x", "0s", "0")
	pod.Spec.RestartPolicy = v1.RestartPolicyNever
	l.deliver(at(1, ops(change(client.Add, true, pod))))
	container = l.awaitRunning("a")
	n.SetFault(func(_ context.Context, method string) error {
		if method == "StopPodSandbox" {
			return errors.New("not now")
		}
		return nil
	})
	if !l.Evict("a", 1, status.Failure{Reason: "Evicted", Message: lowMessage, Disrupted: true}) {
		t.Fatal("the pod can't be evicted")
	}
	p := l.await("a", "is half stopped, and seen so", func(p podview.Pod) bool {
		return p.Err != nil && len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Terminated != nil
	})
	if end := p.Status.ContainerStatuses[0].State.Terminated; end.ExitCode != 0 || p.Status.Phase != v1.PodRunning {
		t.Errorf("meanwhile it is %s, and its container has ended with %d; want it Running, and 0", p.Status.Phase, end.ExitCode)
	}
	if restarted {
		l.stop()
	}
	n.SetFault(nil)
	if restarted {
		l = n.startFrom(l.store)
	}
	return l, container
}

// An evicted pod whose sandbox is stopped later than its containers ends as if both were stopped at once, also over a
// restart: it has succeeded, and the node has ended it.
func TestEvictionInTwoSteps(t *testing.T) {
	for name, restarted := range map[string]bool{"in one process": false, "over a restart": true} {
		t.Run(name, func(t *testing.T) {
			l, _ := evictInTwoSteps(t, newNode(t), "api", restarted)
			p := l.await("a", "has ended", func(p podview.Pod) bool { return p.State == finished })
			if p.Status.Phase != v1.PodSucceeded || p.Status.Reason != "" || !status.EndedByNode(p.Status) {
				t.Errorf("it is %s %q with %v; want it Succeeded, and ended by the node", p.Status.Phase, p.Status.Reason, p.Status.Conditions)
			}
		})
	}
}

// endsWell returns a pod that may fill its disk, and whose container ends with 0 when it is stopped.
func endsWell(source string) *v1.Pod {
	return withData(newPod("a", "web", source, "on-term", "/told", "x", "0s", "0"))
}

// A pod of the API server that exceeds its own limit has succeeded if its containers have.
func TestPodOverItsLimitThatEndsWell(t *testing.T) {
	n := newNode(t)
	l := n.start()
	l.guard()
	l.deliver(at(1, ops(change(client.Add, true, endsWell("api")))))
	l.awaitRunning("a")
	n.fill("a")
	p := l.await("a", "has ended", func(p podview.Pod) bool { return p.State == finished })
	if p.Status.Phase != v1.PodSucceeded || p.Status.Reason != "" || status.EndedByNode(p.Status) {
		t.Errorf("it is %s %q with %v; want it Succeeded, without a condition", p.Status.Phase, p.Status.Reason, p.Status.Conditions)
	}
}

// Such a static pod starts again.
func TestStaticPodOverItsLimitThatEndsWell(t *testing.T) {
	n := newNode(t)
	l := n.start()
	l.guard()
	l.deliver(at(1, ops(change(client.Add, true, endsWell("file")))))
	before := l.awaitRunning("a")
	n.fill("a")
	l.startedAgain(before)
}

// A static pod that is evicted in two steps starts again.
func TestEvictedStaticPodStartsAgainAfterTwoSteps(t *testing.T) {
	for name, restarted := range map[string]bool{"in one process": false, "over a restart": true} {
		t.Run(name, func(t *testing.T) {
			l, before := evictInTwoSteps(t, newNode(t), "file", restarted)
			l.startedAgain(before)
		})
	}
}
