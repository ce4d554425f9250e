package apistatus

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(seconds int) metav1.Time { return metav1.NewTime(t0.Add(time.Duration(seconds) * time.Second)) }

func cond(t v1.PodConditionType, s v1.ConditionStatus, reason string, seconds int) v1.PodCondition {
	return v1.PodCondition{Type: t, Status: s, Reason: reason, LastTransitionTime: at(seconds)}
}

func exited(code int32) v1.ContainerState {
	return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code}}
}

func waitingState() v1.ContainerState {
	return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "PodInitializing"}}
}

func running1() v1.ContainerState {
	return v1.ContainerState{Running: &v1.ContainerStateRunning{}}
}

func containers(states ...v1.ContainerState) []v1.ContainerStatus {
	var out []v1.ContainerStatus
	for i, s := range states {
		out = append(out, v1.ContainerStatus{Name: string(rune('a' + i)), State: s})
	}
	return out
}

func TestMerge(t *testing.T) {
	const gate = v1.PodConditionType("example.com/gate")
	for name, tt := range map[string]struct {
		in   mergeInput
		want v1.PodStatus
	}{
		"a pod of which something may run hasn't ended": {
			in: mergeInput{
				own:   &v1.PodStatus{Phase: v1.PodFailed, Reason: "Evicted", Message: "m", ContainerStatuses: containers(running1())},
				there: &v1.PodStatus{Phase: v1.PodRunning, Reason: "r"}, mayRun: true,
			},
			want: v1.PodStatus{Phase: v1.PodRunning, Reason: "r", ContainerStatuses: containers(running1())},
		},
		"a pod that has ended stays so, as it ended first, and with how its containers ended": {
			in: mergeInput{
				own:   &v1.PodStatus{Phase: v1.PodRunning, Message: "m", ContainerStatuses: containers(waitingState(), exited(3))},
				there: &v1.PodStatus{Phase: v1.PodFailed, Reason: "Lost", Message: "by others", ContainerStatuses: containers(exited(1), exited(2))},
			},
			want: v1.PodStatus{Phase: v1.PodFailed, Reason: "Lost", Message: "by others", ContainerStatuses: containers(exited(1), exited(3))},
		},
		"containers that the runtime has forgotten are kept": {
			in: mergeInput{
				own: &v1.PodStatus{Phase: v1.PodSucceeded},
				there: &v1.PodStatus{Phase: v1.PodSucceeded, ContainerStatuses: containers(exited(0)), InitContainerStatuses: containers(exited(0)),
					EphemeralContainerStatuses: containers(exited(4))},
			},
			want: v1.PodStatus{Phase: v1.PodSucceeded, ContainerStatuses: containers(exited(0)), InitContainerStatuses: containers(exited(0)),
				EphemeralContainerStatuses: containers(exited(4))},
		},
		"a pod that has ended isn't ready, since the server has it so": {
			in: mergeInput{
				own: &v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{
					cond(v1.PodReady, v1.ConditionTrue, "", 1), cond(v1.ContainersReady, v1.ConditionTrue, "", 1),
				}},
				there: &v1.PodStatus{Phase: v1.PodFailed, Conditions: []v1.PodCondition{cond(v1.PodReady, v1.ConditionFalse, "PodFailed", 5)}},
				now:   at(9),
			},
			want: v1.PodStatus{Phase: v1.PodFailed, Conditions: []v1.PodCondition{
				cond(v1.PodReady, v1.ConditionFalse, "PodFailed", 5), cond(v1.ContainersReady, v1.ConditionFalse, "PodFailed", 9),
			}},
		},
		"conditions of others stay in their places, and the node's go with it": {
			in: mergeInput{
				own: &v1.PodStatus{Conditions: []v1.PodCondition{
					cond(gate, v1.ConditionFalse, "stale", 1), cond(v1.PodReady, v1.ConditionTrue, "", 4), cond(v1.PodInitialized, v1.ConditionTrue, "", 2),
				}},
				there: &v1.PodStatus{Conditions: []v1.PodCondition{
					cond(v1.PodResizePending, v1.ConditionTrue, "Deferred", 1), cond(v1.PodReady, v1.ConditionFalse, "r", 3),
					cond(gate, v1.ConditionTrue, "", 2), cond(v1.DisruptionTarget, v1.ConditionTrue, "EvictionByEvictionAPI", 2),
				}},
			},
			want: v1.PodStatus{Conditions: []v1.PodCondition{
				cond(v1.PodReady, v1.ConditionTrue, "", 4), cond(gate, v1.ConditionTrue, "", 2),
				cond(v1.DisruptionTarget, v1.ConditionTrue, "EvictionByEvictionAPI", 2), cond(v1.PodInitialized, v1.ConditionTrue, "", 2),
			}},
		},
		"since when it is so is known at the server, but for what changed and changed back": {
			in: mergeInput{
				own: &v1.PodStatus{Conditions: []v1.PodCondition{
					cond(v1.PodReady, v1.ConditionTrue, "", 8), cond(v1.PodInitialized, v1.ConditionTrue, "", 8), cond(v1.ContainersReady, v1.ConditionTrue, "", 8),
				}},
				there: &v1.PodStatus{Conditions: []v1.PodCondition{
					cond(v1.PodReady, v1.ConditionTrue, "", 9), cond(v1.PodInitialized, v1.ConditionTrue, "", 7), cond(v1.ContainersReady, v1.ConditionFalse, "", 9),
				}},
			},
			want: v1.PodStatus{Conditions: []v1.PodCondition{
				cond(v1.PodReady, v1.ConditionTrue, "", 9), cond(v1.PodInitialized, v1.ConditionTrue, "", 8), cond(v1.ContainersReady, v1.ConditionTrue, "", 8),
			}},
		},
		"a disruption is told with the end": {
			in: mergeInput{
				own: &v1.PodStatus{Phase: v1.PodFailed, Conditions: []v1.PodCondition{cond(v1.DisruptionTarget, v1.ConditionTrue, "TerminationByKubelet", 3)}},
				there: &v1.PodStatus{
					Phase: v1.PodRunning, Conditions: []v1.PodCondition{cond(v1.DisruptionTarget, v1.ConditionTrue, "EvictionByEvictionAPI", 2)},
				},
			},
			want: v1.PodStatus{Phase: v1.PodFailed, Conditions: []v1.PodCondition{cond(v1.DisruptionTarget, v1.ConditionTrue, "TerminationByKubelet", 3)}},
		},
		"and not before": {
			in: mergeInput{
				own:    &v1.PodStatus{Phase: v1.PodFailed, Conditions: []v1.PodCondition{cond(v1.DisruptionTarget, v1.ConditionTrue, "TerminationByKubelet", 3)}},
				there:  &v1.PodStatus{Phase: v1.PodRunning},
				mayRun: true,
			},
			want: v1.PodStatus{Phase: v1.PodRunning},
		},
		"what isn't the node's stays": {
			in: mergeInput{
				own: &v1.PodStatus{Phase: v1.PodRunning, StartTime: ptr.To(at(9)), QOSClass: v1.PodQOSBurstable},
				there: &v1.PodStatus{
					Phase: v1.PodRunning, StartTime: ptr.To(at(3)), NominatedNodeName: "n", QOSClass: v1.PodQOSGuaranteed,
					ResourceClaimStatuses:       []v1.PodResourceClaimStatus{{Name: "c"}},
					ExtendedResourceClaimStatus: &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "e"},
				},
			},
			want: v1.PodStatus{
				Phase: v1.PodRunning, StartTime: ptr.To(at(3)), QOSClass: v1.PodQOSGuaranteed, ResourceClaimStatuses: []v1.PodResourceClaimStatus{{Name: "c"}},
				ExtendedResourceClaimStatus: &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "e"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt.in.spec = &v1.Pod{}
			there := tt.in.there.DeepCopy()
			got := merge(tt.in)
			if diff := cmp.Diff(&tt.want, got); diff != "" {
				t.Errorf("the status (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(there, tt.in.there); diff != "" {
				t.Errorf("the server's copy was changed (-before +after):\n%s", diff)
			}
			tt.in.there, tt.in.now = got, at(100)
			if diff := cmp.Diff(got, merge(tt.in)); diff != "" {
				t.Errorf("what was merged is merged into something else (-first +second):\n%s", diff)
			}
		})
	}
}

// The observed generation never decreases; a mirror pod has its own.
func TestMergeGenerations(t *testing.T) {
	for _, tt := range []struct{ own, there, mirror, want int64 }{
		{own: 2, there: 1, want: 2},
		{own: 1, there: 2, want: 2},
		{own: 0, there: 0, mirror: 1, want: 1},
		{own: 7, there: 1, mirror: 1, want: 1},
	} {
		status := func(g int64) *v1.PodStatus {
			return &v1.PodStatus{ObservedGeneration: g, Conditions: []v1.PodCondition{{Type: v1.PodReady, ObservedGeneration: g}}}
		}
		got := merge(mergeInput{spec: &v1.Pod{}, own: status(tt.own), there: status(tt.there), generation: tt.mirror})
		if got.ObservedGeneration != tt.want || got.Conditions[0].ObservedGeneration != tt.want {
			t.Errorf("%+v: the status is of %d, its condition of %d", tt, got.ObservedGeneration, got.Conditions[0].ObservedGeneration)
		}
	}
}

// What the server has taken once isn't merged into something else again, whatever it is: there would be no end of patches.
func TestMergeComesToRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := mergeInput{
			spec: &v1.Pod{}, own: anyStatus(t, "own"), there: anyStatus(t, "there"), generation: rapid.Int64Range(0, 2).Draw(t, "generation"),
			mayRun: rapid.Bool().Draw(t, "may run"), over: rapid.Bool().Draw(t, "over"), static: rapid.Bool().Draw(t, "static"), now: at(50),
		}
		for i := range rapid.IntRange(0, 2).Draw(t, "init containers") {
			in.spec.Spec.InitContainers = append(in.spec.Spec.InitContainers, v1.Container{Name: string(rune('a' + i))})
		}
		once := merge(in)
		if podmeta.IsTerminal(in.there.Phase) && once.Phase != in.there.Phase {
			t.Fatalf("the end %s is taken back: %s", in.there.Phase, once.Phase)
		}
		in.there, in.now = once, at(100)
		if diff := cmp.Diff(once, merge(in), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("what was merged is merged into something else (-first +second):\n%s", diff)
		}
	})
}

func anyStatus(t *rapid.T, label string) *v1.PodStatus {
	s := &v1.PodStatus{
		Phase:              rapid.SampledFrom([]v1.PodPhase{"", v1.PodPending, v1.PodRunning, v1.PodSucceeded, v1.PodFailed}).Draw(t, label+" phase"),
		Reason:             rapid.SampledFrom([]string{"", "r", "s"}).Draw(t, label+" reason"),
		Message:            rapid.SampledFrom([]string{"", "m"}).Draw(t, label+" message"),
		ObservedGeneration: rapid.Int64Range(0, 3).Draw(t, label+" generation"),
	}
	for _, c := range []v1.PodConditionType{v1.PodReady, v1.ContainersReady, v1.PodResizePending, v1.DisruptionTarget, "example.com/gate"} {
		if status := rapid.SampledFrom([]v1.ConditionStatus{"", v1.ConditionTrue, v1.ConditionFalse}).Draw(t, label+" "+string(c)); status != "" {
			s.Conditions = append(s.Conditions, cond(c, status, s.Reason, rapid.IntRange(1, 3).Draw(t, label+" since")))
		}
	}
	for _, list := range []*[]v1.ContainerStatus{&s.InitContainerStatuses, &s.ContainerStatuses, &s.EphemeralContainerStatuses} {
		states := []v1.ContainerState{waitingState(), running1(), exited(0), exited(1)}
		*list = containers(rapid.SliceOfN(rapid.SampledFrom(states), 0, 2).Draw(t, label+" containers")...)
	}
	return s
}
