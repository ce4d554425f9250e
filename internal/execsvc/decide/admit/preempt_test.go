package admit

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// guaranteed is a pod whose limits are its requests.
func guaranteed(uid, cpu, memory string) *v1.Pod {
	c := asks("cpu", cpu, "memory", memory)
	c.Resources.Limits = c.Resources.Requests
	return podOf(uid, c)
}

func withPriority(pod *v1.Pod, priority int32) *v1.Pod {
	pod.Spec.Priority = &priority
	return pod
}

func fromFile(pod *v1.Pod) *v1.Pod {
	pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	return pod
}

func TestCriticalPodsPreempt(t *testing.T) {
	critical := func(pairs ...string) *v1.Pod { return withPriority(podOf("x", asks(pairs...)), 2_000_000_000) }
	node := Node{Allocatable: listOf("cpu", "4", "memory", "4Gi", "pods", "5", "example.com/gpu", "1"), Labels: map[string]string{}}
	for name, c := range map[string]struct {
		pod    *v1.Pod
		others []*v1.Pod
		want   []types.UID
	}{
		"it fits": {critical("cpu", "1"), []*v1.Pod{podOf("a", asks("cpu", "3"))}, nil},
		"the nearest of one class": {
			critical("cpu", "2"), []*v1.Pod{podOf("a", asks("cpu", "1")), podOf("b", asks("cpu", "1500m")), podOf("c", asks("cpu", "1300m"))},
			// 1800m are missing: b has the least distance, and of the pods that have the rest a has the lowest
			// requests.
			[]types.UID{"b", "a"},
		},
		"one that suffices, and no bigger one": {
			critical("cpu", "1"), []*v1.Pod{podOf("a", asks("cpu", "2")), podOf("b", asks("cpu", "1")), podOf("c", asks("cpu", "1"))},
			[]types.UID{"b"},
		},
		"burstable before guaranteed": {
			critical("cpu", "1"), []*v1.Pod{guaranteed("a", "1", "1Gi"), podOf("b", asks("cpu", "3"))}, []types.UID{"b"},
		},
		"guaranteed if burstable don't suffice, and then only what is still missing": {
			critical("cpu", "3"), []*v1.Pod{
				guaranteed("a", "1", "1Gi"), guaranteed("b", "2", "1Gi"), podOf("c", asks("cpu", "500m")), podOf("d", asks("cpu", "500m")),
			},
			// All burstable pods have 1 of the missing 3, so 2 must come from the other pods.
			[]types.UID{"c", "d", "b"},
		},
		"a pod of the best-effort class, for its place only": {
			critical(), []*v1.Pod{
				podOf("a", asks("cpu", "1m")), podOf("b"), guaranteed("c", "1", "1Gi"), podOf("d"), podOf("e", asks("cpu", "1")),
			},
			[]types.UID{"b"},
		},
		"memory and cpu": {
			critical("cpu", "2", "memory", "2Gi"),
			[]*v1.Pod{podOf("a", asks("cpu", "2")), podOf("b", asks("memory", "2Gi")), podOf("c", asks("cpu", "2", "memory", "2Gi"))},
			[]types.UID{"c"},
		},
		"a device, whose owner uses more memory than others": {
			critical("example.com/gpu", "1"), []*v1.Pod{podOf("a", asks("cpu", "1")), podOf("b", asks("memory", "1Gi", "example.com/gpu", "1"))},
			[]types.UID{"b"},
		},
		"not from another critical one": {
			critical("cpu", "2"), []*v1.Pod{fromFile(podOf("a", asks("cpu", "2"))), podOf("b", asks("cpu", "2"))}, []types.UID{"b"},
		},
		"from a critical one of less priority": {
			withPriority(podOf("x", asks("cpu", "2")), 2_000_001_000), []*v1.Pod{withPriority(podOf("a", asks("cpu", "3")), 2_000_000_000)},
			[]types.UID{"a"},
		},
		"a static pod": {fromFile(podOf("x", asks("cpu", "2"))), []*v1.Pod{podOf("a", asks("cpu", "3"))}, []types.UID{"a"}},
	} {
		if got := Check(c.pod, node, c.others); len(got.Rejected) > 0 || !slices.Equal(got.Preempt, c.want) {
			t.Errorf("%s: preempts %v, rejected for %v; want %v", name, got.Preempt, got.Rejected, c.want)
		}
	}
}

func TestPodsThatCannotPreempt(t *testing.T) {
	node := Node{Allocatable: listOf("cpu", "2", "memory", "1Gi"), Labels: map[string]string{}}
	const preemption = "Unexpected error while attempting to recover from admission failure: preemption: " +
		"error finding a set of pods to preempt: no set of running pods found to reclaim resources: "
	others := []*v1.Pod{withPriority(podOf("a", asks("cpu", "1500m")), 1000), fromFile(podOf("b", asks("cpu", "500m")))}
	got := Check(withPriority(podOf("x", asks("cpu", "1")), 1_999_999_999), node, others)
	wantRejection(t, "not critical", got, "OutOfcpu",
		"Node didn't have enough resource: cpu, requested: 1000, used: 2000, capacity: 2000", true)
	got = Check(fromFile(podOf("x", asks("cpu", "1600m", "memory", "1Gi"))), node, others)
	wantRejection(t, "others are critical too", got, UnexpectedAdmissionError, preemption+"[(res: cpu, q: 100), ]", true)
	got = Check(fromFile(podOf("x", asks("cpu", "3"))), node, others)
	wantRejection(t, "bigger than the node", got, UnexpectedAdmissionError, preemption+"[(res: cpu, q: 1500), ]", false)
	away := fromFile(podOf("x", asks("cpu", "1")))
	away.Spec.NodeSelector = map[string]string{"a": "b"}
	got = Check(away, node, others)
	wantRejection(t, "it can't run here anyway", got, NodeAffinity, "Predicate NodeAffinity failed: ", false)
	if len(got.Preempt) > 0 {
		t.Errorf("for a pod that can't run here %v have to end", got.Preempt)
	}
}

// For random pods: once the victims have ended the pod fits, no victim is unnecessary, a pod is rejected only if all
// pods that yield aren't enough, and the result doesn't depend on the order of the pods.
func TestRandomPreemption(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.IntRange(0, 8)
		some := func(uid string) *v1.Pod {
			c := asks("cpu", fmt.Sprint(amount.Draw(t, "cpu")), "memory", fmt.Sprint(amount.Draw(t, "memory")))
			if rapid.Bool().Draw(t, "limited") {
				c.Resources.Limits = c.Resources.Requests
			}
			return podOf(uid, c)
		}
		var others []*v1.Pod
		for i := range rapid.IntRange(0, 8).Draw(t, "others") {
			p := some(fmt.Sprintf("p%d", i))
			if rapid.IntRange(0, 4).Draw(t, "critical") == 0 {
				fromFile(p)
			}
			others = append(others, p)
		}
		pod := fromFile(some("x"))
		node := Node{Allocatable: listOf("cpu", fmt.Sprint(rapid.IntRange(0, 30).Draw(t, "has cpu")), "memory", "16", "pods", "8")}
		got := Check(pod, node, others)
		shuffled := rapid.Permutation(others).Draw(t, "shuffled")
		if diff := cmp.Diff(got, Check(pod, node, shuffled)); diff != "" {
			t.Fatalf("in another order (-first +second):\n%s", diff)
		}
		if len(got.Rejected) > 0 {
			free := slices.DeleteFunc(slices.Clone(others), func(o *v1.Pod) bool { return !podmeta.Preempts(o) })
			if again := Check(pod, node, free); len(again.Rejected) == 0 {
				t.Fatalf("rejected for %v, though it fits without the pods that yield", got.Rejected)
			}
			return
		}
		left := slices.DeleteFunc(slices.Clone(others), func(o *v1.Pod) bool { return slices.Contains(got.Preempt, o.UID) })
		if after := Check(pod, node, left); len(after.Rejected) > 0 || len(after.Preempt) > 0 {
			t.Fatalf("after %v have ended: %+v", got.Preempt, after)
		}
		if len(got.Preempt) > 0 && len(shortages(pod, node.Allocatable, others)) == 0 {
			t.Fatalf("%v have to end, and nothing is missing", got.Preempt)
		}
	})
}

func TestMirrorPodsPreempt(t *testing.T) {
	mirror := podOf("x")
	mirror.Annotations = map[string]string{podmeta.MirrorAnnotation: "1", "kubernetes.io/config.source": "api"}
	if !podmeta.Preempts(mirror) || podmeta.Preempts(podOf("y")) || podmeta.Preempts(withPriority(podOf("z"), 1_999_999_999)) {
		t.Error("a mirror pod isn't critical, or a plain one is")
	}
	one, two := withPriority(podOf("y"), 1), withPriority(podOf("z"), 2)
	if !yields(one, two) || yields(two, one) || yields(two, two) || yields(podOf("y"), podOf("z")) {
		t.Error("pods yield to others that aren't above them, or not to one that is")
	}
	if yields(other("y", v1.PodSpec{}), other("z", v1.PodSpec{Priority: ptr.To[int32](1)})) {
		t.Error("a pod without a priority yields to one that isn't critical")
	}
}
