package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// short is a condition as "Type=Status Reason: message".
func short(conditions []v1.PodCondition) []string {
	var out []string
	for _, c := range conditions {
		s := string(c.Type) + "=" + string(c.Status)
		if c.Reason != "" {
			s += " " + c.Reason
		}
		if c.Message != "" {
			s += ": " + c.Message
		}
		out = append(out, s)
	}
	return out
}

func TestConditions(t *testing.T) {
	stopped := has(exited("a", 0))
	stopped.Sandboxes[0].Ready, stopped.Sandboxes[0].IPs = false, nil
	noNetwork := has()
	noNetwork.Sandboxes[0].IPs = nil
	hostNetwork := has(running("a"))
	hostNetwork.Sandboxes[0].IPs, hostNetwork.Sandboxes[0].HostNetwork = nil, true
	hostPod := podOf(always, "a")
	hostPod.Spec.HostNetwork = true
	two := has(running("a"))
	two.Sandboxes = append(two.Sandboxes, two.Sandboxes[0])
	for name, c := range map[string]struct {
		pod  *v1.Pod
		has  *observed.Pod
		want []string
	}{
		"nothing yet": {podOf(always, "a", "b"), nil, []string{
			"PodReadyToStartContainers=False PodSandboxNotReady: no pod sandbox exists", "Initialized=True",
			"Ready=False ContainersNotReady: containers with unready status: [a b]",
			"ContainersReady=False ContainersNotReady: containers with unready status: [a b]", "PodScheduled=True"}},
		"a sandbox without network": {podOf(always, "a"), noNetwork, []string{
			"PodReadyToStartContainers=False PodSandboxNotReady: pod sandbox has no IP address", "Initialized=True",
			"Ready=False ContainersNotReady: containers with unready status: [a]",
			"ContainersReady=False ContainersNotReady: containers with unready status: [a]", "PodScheduled=True"}},
		"init containers under way": {podOf(always, "init1", "init2", "a"), has(running("init2"), exited("init1", 0)), []string{
			"PodReadyToStartContainers=True", "Initialized=False ContainersNotInitialized: containers with incomplete status: [init2]",
			"Ready=False ContainersNotReady: containers with unready status: [a]",
			"ContainersReady=False ContainersNotReady: containers with unready status: [a]", "PodScheduled=True"}},
		"running": {podOf(always, "init1", "a"), has(running("a"), exited("init1", 0)), []string{
			"PodReadyToStartContainers=True", "Initialized=True", "Ready=True", "ContainersReady=True", "PodScheduled=True"}},
		"running, init container removed": {podOf(always, "init1", "a"), has(running("a")), []string{
			"PodReadyToStartContainers=True", "Initialized=True", "Ready=True", "ContainersReady=True", "PodScheduled=True"}},
		"no longer in the node's network": {podOf(always, "a"), hostNetwork, []string{
			"PodReadyToStartContainers=False PodSandboxNotReady: network namespace mode changed and sandbox needs to be recreated",
			"Initialized=True", "Ready=True", "ContainersReady=True", "PodScheduled=True"}},
		"two sandboxes": {podOf(always, "a"), two, []string{
			"PodReadyToStartContainers=False PodSandboxNotReady: multiple pod sandboxes are ready and need to be reconciled",
			"Initialized=True", "Ready=True", "ContainersReady=True", "PodScheduled=True"}},
		"in the node's network": {hostPod, hostNetwork, []string{
			"PodReadyToStartContainers=True", "Initialized=True", "Ready=True", "ContainersReady=True", "PodScheduled=True"}},
		"one of two": {podOf(always, "a", "b"), has(running("b"), exited("a", 1)), []string{
			"PodReadyToStartContainers=True", "Initialized=True",
			"Ready=False ContainersNotReady: containers with unready status: [a]",
			"ContainersReady=False ContainersNotReady: containers with unready status: [a]", "PodScheduled=True"}},
		"succeeded": {podOf(never, "a"), stopped, []string{
			"PodReadyToStartContainers=False PodSandboxNotReady: pod sandbox is not ready", "Initialized=True PodCompleted",
			"Ready=False PodCompleted", "ContainersReady=False PodCompleted", "PodScheduled=True"}},
		"failed": {podOf(never, "a"), has(exited("a", 1)), []string{
			"PodReadyToStartContainers=True", "Initialized=True",
			"Ready=False PodFailed", "ContainersReady=False PodFailed", "PodScheduled=True"}},
	} {
		if diff := cmp.Diff(c.want, short(Generate(in(c.pod, c.has)).Conditions)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestReadinessGates(t *testing.T) {
	pod := podOf(always, "a")
	pod.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "x/up"}, {ConditionType: "x/ok"}}
	set := func(status v1.ConditionStatus) {
		pod.Status.Conditions = []v1.PodCondition{{Type: "x/up", Status: status}, {Type: "x/ok", Status: v1.ConditionTrue}}
	}
	for want, gate := range map[string]func(){
		`Ready=False ReadinessGatesNotReady: corresponding condition of pod readiness gate "x/up" does not exist., ` +
			`corresponding condition of pod readiness gate "x/ok" does not exist.`: func() { pod.Status.Conditions = nil },
		`Ready=False ReadinessGatesNotReady: the status of pod readiness gate "x/up" is not "True", but False`: func() { set(v1.ConditionFalse) },
		"Ready=True": func() { set(v1.ConditionTrue) },
	} {
		gate()
		got := Generate(in(pod, has(running("a")))).Conditions
		if s := short([]v1.PodCondition{*condition(got, v1.PodReady)})[0]; s != want {
			t.Errorf("got %s\nwant %s", s, want)
		}
		if c := condition(got, v1.ContainersReady); c.Status != v1.ConditionTrue {
			t.Errorf("ContainersReady is %s: gates don't concern it", c.Status)
		}
		for _, c := range pod.Status.Conditions {
			if kept := condition(got, c.Type); kept == nil || kept.Status != c.Status {
				t.Errorf("condition %s of others isn't passed on", c.Type)
			}
		}
	}
}

func TestTransitionTimes(t *testing.T) {
	input := in(podOf(always, "a"), has())
	first := Generate(input)
	later := t0.Add(time.Hour)
	input.Previous, input.Runtime, input.Now = &first, has(running("a")), later
	second := Generate(input)
	for kind, want := range map[v1.PodConditionType]time.Time{
		v1.PodReady: later, v1.ContainersReady: later, v1.PodScheduled: t0, v1.PodInitialized: t0, v1.PodReadyToStartContainers: t0,
	} {
		c := condition(second.Conditions, kind)
		if stamped := stamp(want); !c.LastTransitionTime.Equal(&stamped) {
			t.Errorf("%s changed at %v, want %v", kind, c.LastTransitionTime, stamped)
		}
		if c.ObservedGeneration != 7 {
			t.Errorf("%s is of generation %d, want 7", kind, c.ObservedGeneration)
		}
	}
}

func TestGenerateIsQuietWhenNothingChanges(t *testing.T) {
	input := in(podOf(always, "init1", "a"), has(running("a"), exited("init1", 0)))
	first := Generate(input)
	input.Previous, input.Now = &first, t0.Add(time.Hour)
	if diff := cmp.Diff(first, Generate(input)); diff != "" {
		t.Errorf("an hour later (-first +second):\n%s", diff)
	}
}

func TestGenerateTakesOver(t *testing.T) {
	pod := podOf(always, "a")
	got := Generate(in(pod, nil))
	if got.ObservedGeneration != 7 || got.QOSClass != v1.PodQOSBestEffort {
		t.Errorf("generation %d, class %s", got.ObservedGeneration, got.QOSClass)
	}
	if want := stamp(t0); !got.StartTime.Equal(&want) {
		t.Errorf("start time %v, want now", got.StartTime)
	}
	// The status of the API counts where this agent has none: it may have been started again.
	before := metav1.NewTime(t0.Add(-time.Hour)).Rfc3339Copy()
	pod.Status.StartTime = &before
	if got := Generate(in(pod, nil)); !got.StartTime.Equal(&before) {
		t.Errorf("start time %v, want that of before", got.StartTime)
	}
}
