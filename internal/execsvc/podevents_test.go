package execsvc

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/decide/status"
	"github.com/podstream/podstream/internal/execsvc/loop/worker"
)

// recorded returns the events of a pod with that reason, each as "TYPE MESSAGE".
func (l *testAgent) recorded(uid, reason string) []string {
	var out []string
	all, _, _ := l.events.After(0)
	for _, e := range all {
		if string(e.UID) == uid && e.Reason == reason {
			out = append(out, fmt.Sprintf("%s %s", e.Type, e.Message))
		}
	}
	return out
}

// wantEvent waits for an event of the pod, and checks that it is the only one of its reason.
func (l *testAgent) wantEvent(uid, reason, want string) {
	l.n.t.Helper()
	var got []string
	eventually(l.n.t, uid+" has the event "+reason, func() bool {
		got = l.recorded(uid, reason)
		return len(got) > 0
	})
	if len(got) != 1 || got[0] != want {
		l.n.t.Errorf("%s: the events are %q; want %q", reason, got, want)
	}
}

// illRuntime is the error of a runtime that fails with "the runtime is ill".
const illRuntime = "rpc error: code = Unknown desc = the runtime is ill"

// TestFailedSync: a pod whose state can't be read from the runtime has an event, while it starts and while it ends.
func TestFailedSync(t *testing.T) {
	n := newNode(t)
	l := n.start()
	l.deliver(ops(change(client.Add, true, newPod("a", "web", "file"))))
	l.awaitRunning("a")
	fail := func(_ context.Context, method string) error {
		if method == "ListPodSandbox" || method == "ListContainers" || method == "PodSandboxStatus" || method == "ContainerStatus" {
			return errors.New("the runtime is ill")
		}
		return nil
	}
	n.SetFault(fail)
	eventually(t, "the failure is known", func() bool { return l.pleg.Health() != nil })
	l.deliver(ops(change(client.Add, true, newPod("b", "other", "file"))))
	eventually(t, "the new pod has the event", func() bool { return len(l.recorded("b", "FailedSync")) > 0 })
	if got := l.recorded("b", "FailedSync"); len(got) != 1 || got[0] != "Warning error determining status: "+illRuntime {
		t.Errorf("the events are %q; want one, that its status can't be determined", got)
	}
	l.deliver(ops(change(client.Remove, true, newPod("a", "web", "file"))))
	eventually(t, "the ending pod has the event", func() bool { return len(l.recorded("a", "FailedSync")) > 0 })
	n.SetFault(nil)
	l.awaitGone("a")
}

// TestMissingPullSecret: a pod whose pull secret doesn't exist has an event, also one whose image is there, and runs.
func TestMissingPullSecret(t *testing.T) {
	n := newNode(t)
	l := n.start()
	pod := newPod("a", "web", "file")
	pod.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: "gone"}}
	l.deliver(ops(change(client.Add, true, pod)))
	l.awaitRunning("a")
	l.wantEvent("a", "FailedToRetrieveImagePullSecret",
		"Warning Unable to retrieve some image pull secrets (gone); attempting to pull the image may not succeed.")
}

// TestFailedKillPod: a pod that the runtime can't stop has the runtime's error as its event.
func TestFailedKillPod(t *testing.T) {
	n := newNode(t)
	l := n.start()
	pod := newPod("a", "web", "file")
	l.deliver(ops(change(client.Add, true, pod)))
	l.awaitRunning("a")
	n.SetFault(func(_ context.Context, method string) error {
		if method == "StopContainer" {
			return errors.New("the runtime is ill")
		}
		return nil
	})
	l.deliver(ops(change(client.Remove, true, pod)))
	eventually(t, "the pod has the event", func() bool { return len(l.recorded("a", "FailedKillPod")) > 0 })
	want := fmt.Sprintf(`Warning error killing pod: failed to "KillContainer" for %q with KillContainerError: %q`, pod.Spec.Containers[0].Name, illRuntime)
	if got := l.recorded("a", "FailedKillPod"); got[0] != want {
		t.Errorf("the event is %q; want %q", got[0], want)
	}
	n.SetFault(nil)
	l.awaitGone("a")
}

// TestNetworkNotReadyIsAnEvent: a pod that can't start without the node's network has an event.
func TestNetworkNotReadyIsAnEvent(t *testing.T) {
	n := newNode(t)
	l := n.start()
	n.setNetwork(errors.New("cni plugin not initialized"))
	n.SetFault(func(_ context.Context, method string) error {
		if method == "RunPodSandbox" {
			return errors.New("cni plugin not initialized")
		}
		return nil
	})
	l.deliver(ops(change(client.Add, true, newPod("a", "web", "file"))))
	l.wantEvent("a", "NetworkNotReady", "Warning network is not ready: cni plugin not initialized")
}

// TestExceededGracePeriod: an evicted pod that the runtime doesn't stop has one event, also if it takes much longer.
func TestExceededGracePeriod(t *testing.T) {
	n := newNode(t)
	l := n.start()
	l.deliver(ops(change(client.Add, true, newPod("a", "web", "api"), newPod("b", "other", "api"))))
	l.awaitRunning("a")
	l.awaitRunning("b")
	held, release := n.Hold(t, "StopContainer", 0)
	defer release()
	l.Evict("a", 1, status.Failure{Reason: "Evicted", Message: "too much"})
	l.deliver(ops(change(client.Remove, true, newPod("b", "other", "api"))))
	held()
	l.housekeep()
	if got := l.recorded("a", "ExceededGracePeriod"); len(got) > 0 {
		t.Errorf("in time, there are the events %q", got)
	}
	l.ahead.Store(int64(11 * time.Second))
	l.wantEvent("a", "ExceededGracePeriod", "Warning Container runtime did not kill the pod within specified grace period.")
	l.ahead.Store(int64(time.Minute))
	l.housekeep()
	all, _, _ := l.events.After(0)
	for _, e := range all {
		if e.Reason == "ExceededGracePeriod" && (e.UID != "a" || e.Count != 1) {
			t.Errorf("pod %s has the event %d times; want it once for the evicted pod, and never for the removed one", e.UID, e.Count)
		}
	}
}

func TestIsOverdue(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	ends := func(grace int64, ago time.Duration, reason string) worker.Status {
		s := worker.Status{State: worker.Terminating, Pod: &v1.Pod{}, Termination: worker.NewTermination(now.Add(-ago), grace, nil)}
		if reason != "" {
			s.Termination.Failure = &status.Failure{Reason: reason}
		}
		return s
	}
	ended := ends(1, time.Hour, "Evicted")
	ended.State = worker.Finished
	for name, c := range map[string]struct {
		pod  worker.Status
		want bool
	}{
		"evicted just now":                  {ends(1, 9*time.Second, "Evicted"), false},
		"evicted ten seconds ago":           {ends(1, 10*time.Second, "Evicted"), true},
		"within half of its grace period":   {ends(30, 44*time.Second, "Preempting"), false},
		"beyond half of its grace period":   {ends(30, 45*time.Second, "Preempting"), true},
		"removed":                           {ends(1, time.Hour, ""), false},
		"beyond its own deadline":           {ends(1, time.Hour, "DeadlineExceeded"), false},
		"ended":                             {ended, false},
		"with the longest of grace periods": {ends(1<<31-1, time.Hour, "Evicted"), false},
	} {
		if got := isOverdue(c.pod, now); got != c.want {
			t.Errorf("%s: %v; want %v", name, got, c.want)
		}
	}
}
