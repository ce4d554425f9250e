package admit

import (
	"math"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Requests whose integers would overflow count as the largest amount: no pod gets in by them, and none of them makes
// capacity free for others.
func TestHugeRequests(t *testing.T) {
	const most = "9223372036854775807"
	node := Node{Allocatable: listOf("cpu", "4", "memory", "8Gi", "pods", "10", "example.com/gpu", "2")}
	for name, c := range map[string]struct {
		pod    *v1.Pod
		reason string
	}{
		"memory, in sum -2":               {podOf("x", asks("memory", most), asks("memory", most)), "OutOfmemory"},
		"memory, in sum 0":                {podOf("x", asks("memory", most), asks("memory", most), asks("memory", "2")), "OutOfmemory"},
		"cpu, in thousandths -1000":       {podOf("x", asks("cpu", most)), "OutOfcpu"},
		"cpu, in thousandths -63616":      {podOf("x", asks("cpu", "18446744073709488")), "OutOfcpu"},
		"a device of the node, in sum -2": {podOf("x", asks("example.com/gpu", most), asks("example.com/gpu", most)), "OutOfexample.com/gpu"},
	} {
		got := Check(c.pod, node, nil)
		if len(got.Rejected) != 1 || got.Rejected[0].Reason != c.reason || got.Transient() {
			t.Errorf("%s: %+v; want it rejected for good with %s", name, got.Rejected, c.reason)
		}
		// It may run since before a restart. Then nothing of the resource is left for others.
		resource := strings.TrimPrefix(c.reason, OutOf)
		if got := Check(podOf("y", asks(resource, "1")), node, []*v1.Pod{c.pod, other("z", c.pod.Spec)}); len(got.Rejected) != 1 || got.Rejected[0].Reason != c.reason {
			t.Errorf("beside %s: %+v; want nothing left", name, got.Rejected)
		}
	}
	// On a node that is short already, too.
	full := []*v1.Pod{podOf("a", asks("memory", "16Gi"))}
	if got := Check(podOf("x", asks("memory", most)), node, full); len(got.Rejected) != 1 {
		t.Errorf("%+v; want it rejected", got)
	}
	// A negative request, which no valid pod has, takes nothing and gives nothing.
	if got := Check(podOf("x", asks("memory", "8Gi")), node, []*v1.Pod{podOf("a", asks("memory", "4Gi")), podOf("b", asks("memory", "-4Gi"))}); len(got.Rejected) != 1 {
		t.Errorf("%+v; want it rejected", got)
	}
}

// Victims with huge requests are enough, however many there are.
func TestHugeVictims(t *testing.T) {
	huge := map[v1.ResourceName]int64{v1.ResourceMemory: math.MaxInt64}
	victims := []candidate{{podOf("a"), huge}, {podOf("b"), huge}, {podOf("c"), huge}}
	if left := (needs{{v1.ResourceMemory, 1}}).without(victims); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	node := Node{Allocatable: listOf("cpu", "4", "memory", "8Gi", "pods", "10")}
	got := Check(fromFile(podOf("x", asks("memory", "1Gi"))), node, []*v1.Pod{podOf("a", asks("memory", "9223372036854775807"))})
	if len(got.Rejected) > 0 || len(got.Preempt) != 1 || got.Preempt[0] != types.UID("a") {
		t.Errorf("%+v; want a preempted", got)
	}
}
