package status

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// The statuses of a container, by what the phase goes by.
func runs(name string, started bool) v1.ContainerStatus {
	return v1.ContainerStatus{Name: name, Started: ptr.To(started), State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}
}

func waits(name string, lastCode ...int32) v1.ContainerStatus {
	s := v1.ContainerStatus{Name: name, State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}
	for _, code := range lastCode {
		s.LastTerminationState.Terminated = &v1.ContainerStateTerminated{ExitCode: code, ContainerID: "containerd://id-" + name}
	}
	return s
}

func ends(name string, code int32) v1.ContainerStatus {
	return v1.ContainerStatus{Name: name, State: v1.ContainerState{
		Terminated: &v1.ContainerStateTerminated{ExitCode: code, ContainerID: "containerd://id-" + name},
	}}
}

// TestPhaseByStatuses: containers without a state, sidecars that haven't started, and containers that wait after a
// success.
func TestPhaseByStatuses(t *testing.T) {
	oldSandbox := running("a")
	oldSandbox.SandboxID = "s0"
	for name, tc := range map[string]struct {
		pod        *v1.Pod
		rt         *observed.Pod
		init, main []v1.ContainerStatus
		want, end  v1.PodPhase
	}{
		"one is unknown, one runs":     {podOf(always, "a", "b"), has(), nil, []v1.ContainerStatus{runs("a", true)}, v1.PodPending, v1.PodFailed},
		"one is unknown, one ended":    {podOf(never, "a", "b"), has(), nil, []v1.ContainerStatus{ends("a", 0)}, v1.PodPending, v1.PodFailed},
		"a sidecar is unknown":         {podOf(always, "side", "a"), has(running("a")), nil, []v1.ContainerStatus{runs("a", true)}, v1.PodPending, v1.PodFailed},
		"a sidecar is unknown, ended":  {podOf(never, "side", "a"), has(exited("a", 0)), nil, []v1.ContainerStatus{ends("a", 0)}, v1.PodPending, v1.PodFailed},
		"a sidecar that has started":   {podOf(always, "side", "a"), has(oldSandbox), []v1.ContainerStatus{runs("side", true)}, []v1.ContainerStatus{runs("a", true)}, v1.PodRunning, v1.PodRunning},
		"a sidecar that hasn't":        {podOf(always, "side", "a"), has(oldSandbox), []v1.ContainerStatus{runs("side", false)}, []v1.ContainerStatus{runs("a", true)}, v1.PodPending, v1.PodFailed},
		"a sidecar that hasn't, later": {podOf(always, "side", "a"), has(running("a")), []v1.ContainerStatus{runs("side", false)}, []v1.ContainerStatus{runs("a", true)}, v1.PodRunning, v1.PodRunning},
		"a sidecar that waits":         {podOf(always, "side", "a"), has(running("a")), []v1.ContainerStatus{waits("side")}, []v1.ContainerStatus{runs("a", true)}, v1.PodPending, v1.PodFailed},
		"a sidecar that waits again":   {podOf(always, "side", "a"), has(running("a")), []v1.ContainerStatus{waits("side", 1)}, []v1.ContainerStatus{runs("a", true)}, v1.PodRunning, v1.PodRunning},
		"only a sidecar runs":          {podOf(never, "side", "a"), has(exited("a", 0)), []v1.ContainerStatus{runs("side", true)}, []v1.ContainerStatus{ends("a", 0)}, v1.PodRunning, v1.PodRunning},

		"waits after exit 0, always":     {podOf(always, "a"), has(exited("a", 0)), nil, []v1.ContainerStatus{waits("a", 0)}, v1.PodRunning, v1.PodFailed},
		"waits after exit 0, never":      {podOf(never, "a"), has(exited("a", 0)), nil, []v1.ContainerStatus{waits("a", 0)}, v1.PodFailed, v1.PodFailed},
		"waits after exit 0, other well": {podOf(never, "a", "b"), has(exited("a", 0)), nil, []v1.ContainerStatus{waits("a", 0), ends("b", 0)}, v1.PodFailed, v1.PodFailed},
		"ended with 0":                   {podOf(never, "a"), has(exited("a", 0)), nil, []v1.ContainerStatus{ends("a", 0)}, v1.PodSucceeded, v1.PodSucceeded},
		"waits and never ran":            {podOf(never, "a"), has(), nil, []v1.ContainerStatus{waits("a")}, v1.PodPending, v1.PodFailed},
	} {
		input := in(tc.pod, tc.rt)
		input.Previous = &v1.PodStatus{}
		input.facts = factsOf(&input)
		status := &v1.PodStatus{InitContainerStatuses: tc.init, ContainerStatuses: tc.main}
		if got := phase(&input, status); got != tc.want {
			t.Errorf("%s: %s; want %s", name, got, tc.want)
		}
		input.Terminal = true
		if got := phase(&input, status); got != tc.end {
			t.Errorf("%s, at the end: %s; want %s", name, got, tc.end)
		}
	}
}

// TestRestartCountOfADeletedPod: a container that ran and is gone from the runtime counts as restarted, unless its pod
// is being deleted; its end shows in both cases.
func TestRestartCountOfADeletedPod(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		input := in(podOf(always, "a"), has())
		want := int32(4)
		if deleted {
			input.Pod.DeletionTimestamp, want = &metav1.Time{Time: t0}, 3
		}
		s := runs("a", true)
		s.RestartCount, s.ContainerID = 3, "containerd://id-a"
		input.Previous = &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{s}}
		got := Generate(input).ContainerStatuses[0]
		if end := got.LastTerminationState.Terminated; got.RestartCount != want || end == nil || end.ContainerID != s.ContainerID {
			t.Errorf("deleted: %v: %d restarts, last ended %+v; want %d, and the end of %s", deleted, got.RestartCount, end, want, s.ContainerID)
		}
	}
}

// TestAllContainersRestartingCondition: only pods with such a rule have it; it is true while an old container is there,
// and false for good once the pod has ended, with the reason.
func TestAllContainersRestartingCondition(t *testing.T) {
	ruled := func(policy v1.RestartPolicy, init bool) *v1.Pod {
		pod := podOf(policy, "init1", "a", "b")
		rule := rules(v1.ContainerRestartPolicyNever, v1.ContainerRestartRuleActionRestartAllContainers, 42)
		if init {
			rule(&pod.Spec.InitContainers[0])
		} else {
			rule(&pod.Spec.Containers[0])
		}
		return pod
	}
	seen := func(status v1.ConditionStatus, names ...string) *v1.PodStatus {
		out := &v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.AllContainersRestarting, Status: status}}}
		for _, name := range names {
			s := v1.ContainerStatus{Name: name, ContainerID: "containerd://id-" + name}
			if name == "init1" {
				out.InitContainerStatuses = append(out.InitContainerStatuses, s)
			} else {
				out.ContainerStatuses = append(out.ContainerStatuses, s)
			}
		}
		return out
	}
	const started = "RestartAllContainersStarted"
	for name, tc := range map[string]struct {
		pod      *v1.Pod
		has      *observed.Pod
		previous *v1.PodStatus
		failure  *Failure
		want     v1.ConditionStatus
		reason   string
	}{
		"no rule":                        {podOf(never, "init1", "a", "b"), has(exited("a", 42), running("b")), nil, nil, "", ""},
		"nothing has happened":           {ruled(never, false), has(running("a"), running("b")), nil, nil, v1.ConditionFalse, ""},
		"it begins":                      {ruled(never, false), has(exited("a", 42), running("b")), nil, nil, v1.ConditionTrue, started},
		"it begins with an init":         {ruled(never, true), has(exited("init1", 42)), nil, nil, v1.ConditionTrue, started},
		"an init container is left":      {ruled(never, false), has(exited("init1", 0)), seen(v1.ConditionTrue, "init1", "a", "b"), nil, v1.ConditionTrue, started},
		"a main container is left":       {ruled(never, false), has(exited("b", 137)), seen(v1.ConditionTrue, "init1", "a", "b"), nil, v1.ConditionTrue, started},
		"none is left":                   {ruled(never, false), has(), seen(v1.ConditionTrue, "init1", "a", "b"), nil, v1.ConditionFalse, ""},
		"only successors are there":      {ruled(never, false), has(second("init1")), seen(v1.ConditionTrue, "init1", "a", "b"), nil, v1.ConditionFalse, ""},
		"left, but nothing had happened": {ruled(never, false), has(running("b"), running("a")), seen(v1.ConditionFalse, "a", "b"), nil, v1.ConditionFalse, ""},
		"the pod was ended by the node": {ruled(never, false), has(exited("a", 42), running("b")), seen(v1.ConditionTrue, "a", "b"),
			&Failure{Reason: "Evicted"}, v1.ConditionFalse, podFailed},
		"the pod has succeeded": {ruled(never, false), has(exited("a", 0), exited("b", 0), exited("init1", 0)),
			seen(v1.ConditionFalse, "a", "b"), nil, v1.ConditionFalse, podCompleted},
	} {
		input := in(tc.pod, tc.has)
		input.Previous, input.Failure = tc.previous, tc.failure
		got := Generate(input)
		switch c := condition(got.Conditions, v1.AllContainersRestarting); {
		case tc.want == "":
			if c != nil {
				t.Errorf("%s: there is a condition %+v; want none", name, c)
			}
		case c == nil:
			t.Errorf("%s: there is no condition", name)
		case c.Status != tc.want || c.Reason != tc.reason || (c.Message == "container exited with restart policy rule") != (tc.want == v1.ConditionTrue):
			t.Errorf("%s: %s %q %q; want %s %q", name, c.Status, c.Reason, c.Message, tc.want, tc.reason)
		}
	}
}
