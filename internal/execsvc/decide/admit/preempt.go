package admit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// yields reports whether the pod may be preempted for the other (the kubelet's types.Preemptable).
func yields(pod, other *v1.Pod) bool {
	if podmeta.Preempts(other) && !podmeta.Preempts(pod) {
		return true
	}
	return pod.Spec.Priority != nil && other.Spec.Priority != nil && *pod.Spec.Priority < *other.Spec.Priority
}

// preempt selects the pods to preempt for this one (the kubelet's pkg/kubelet/preemption): as few guaranteed ones as
// possible, then as few burstable ones, then as few of the best-effort class.
func (c *checker) preempt(short []shortage, others []*v1.Pod) {
	var bestEffort, burstable, guaranteed []candidate
	for _, o := range others {
		if !yields(o, c.pod) {
			continue
		}
		candidate := candidate{pod: o, requests: requests(o)}
		switch podmeta.QOSClass(o) {
		case v1.PodQOSGuaranteed:
			guaranteed = append(guaranteed, candidate)
		case v1.PodQOSBurstable:
			burstable = append(burstable, candidate)
		default:
			bestEffort = append(bestEffort, candidate)
		}
	}
	var all needs
	for _, s := range short {
		all = append(all, need{s.name, s.missing()})
	}
	if left := all.without(slices.Concat(bestEffort, burstable, guaranteed)); len(left) > 0 {
		message := "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to preempt: " +
			"no set of running pods found to reclaim resources: " + left.String()
		transient := !slices.ContainsFunc(short, func(s shortage) bool { return !s.transient() })
		c.verdict.Rejected = append(c.verdict.Rejected, Rejection{Reason: UnexpectedAdmissionError, Message: message, Transient: transient})
		return
	}
	// From each class come only the resources that the lower classes can't give.
	guaranteed = choose(guaranteed, all.without(slices.Concat(bestEffort, burstable)))
	burstable = choose(burstable, all.without(slices.Concat(bestEffort, guaranteed)))
	bestEffort = choose(bestEffort, all.without(slices.Concat(burstable, guaranteed)))
	c.verdict.Short = short[0].name
	for _, chosen := range slices.Concat(bestEffort, burstable, guaranteed) {
		c.verdict.Preempt = append(c.verdict.Preempt, chosen.pod.UID)
	}
}

// candidate is a pod that may be preempted, and its requests.
type candidate struct {
	pod      *v1.Pod
	requests map[v1.ResourceName]int64
}

// need is the missing amount of a resource.
type need struct {
	name   v1.ResourceName
	amount int64
}

type needs []need

// without returns the needs that are left once these pods have ended.
func (n needs) without(ended []candidate) needs {
	var left needs
	for _, need := range n {
		for _, e := range ended {
			// From zero at least, so that nothing overflows.
			need.amount = max(need.amount, 0) - e.requests[need.name]
		}
		if need.amount > 0 {
			left = append(left, need)
		}
	}
	return left
}

// distance is how much of the needs is left once the pod has ended. All needs have the same weight.
func (n needs) distance(p candidate) float64 {
	sum := 0.0
	for _, need := range n {
		left := float64(max(need.amount-p.requests[need.name], 0)) / float64(need.amount)
		sum += left * left
	}
	return sum
}

func (n needs) String() string {
	var b strings.Builder
	for _, need := range n {
		fmt.Fprintf(&b, "(res: %s, q: %d), ", need.name, need.amount)
	}
	return "[" + b.String() + "]"
}

// choose takes the pod with the least distance until nothing is missing; of two with the same distance, the one with
// the lower requests. The result doesn't depend on the order of the pods, so that repeated calls choose the same ones.
func choose(pods []candidate, missing needs) []candidate {
	pods = slices.Clone(pods)
	var chosen []candidate
	for len(missing) > 0 && len(pods) > 0 {
		best := slices.MinFunc(pods, func(a, b candidate) int {
			return cmp.Or(
				cmp.Compare(missing.distance(a), missing.distance(b)),
				cmp.Compare(a.requests[v1.ResourceMemory], b.requests[v1.ResourceMemory]),
				cmp.Compare(a.requests[v1.ResourceCPU], b.requests[v1.ResourceCPU]),
				cmp.Compare(a.pod.UID, b.pod.UID),
			)
		})
		chosen = append(chosen, best)
		missing = missing.without([]candidate{best})
		pods = slices.DeleteFunc(pods, func(p candidate) bool { return p.pod.UID == best.pod.UID })
	}
	return chosen
}
