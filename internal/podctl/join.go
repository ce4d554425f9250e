package podctl

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// The kubelet's annotations that podctl reads.
const (
	seenAnnotation   = "kubernetes.io/config.seen"
	mirrorAnnotation = "kubernetes.io/config.mirror"
)

// pair is one pod: what should be and what is. At least one half is there.
type pair struct {
	ref      *podconfigv1.PodRef
	desired  *podconfigv1.Pod       // nil: podconfigd doesn't have it
	pod      *corev1.Pod            // content of desired; nil also if it can't be decoded
	observed *podexecv1.ObservedPod // nil: podexecd doesn't have it
	status   *corev1.PodStatus      // content of observed; nil also if it can't be decoded
}

// source is where the pod comes from, as far as either half knows.
func (p *pair) source() string { return cmp.Or(p.desired.GetSource(), p.observed.GetSource()) }

// mirror tells whether the pod only shows a static pod to the API server: nothing runs under its UID.
func (p *pair) mirror() bool {
	return p.pod != nil && p.pod.Annotations[mirrorAnnotation] != ""
}

// join puts the halves together by UID and sorts by namespace, name and UID. Content that can't be decoded is left out; the
// errors tell of which pods.
func join(desired []*podconfigv1.Pod, observed []*podexecv1.ObservedPod) (pairs []*pair, errs []error) {
	byUID := map[string]*pair{}
	at := func(ref *podconfigv1.PodRef) *pair {
		p := byUID[ref.GetUid()]
		if p == nil {
			p = &pair{ref: ref}
			byUID[ref.GetUid()] = p
		}
		return p
	}
	for _, d := range desired {
		p := at(d.GetRef())
		p.desired = d
		if pod := new(corev1.Pod); d.GetProtobuf() != nil {
			if err := pod.Unmarshal(d.GetProtobuf()); err != nil {
				errs = append(errs, fmt.Errorf("decode pod %s of podconfigd: %w", fullName(d.GetRef()), err))
			} else {
				p.pod = pod
			}
		}
	}
	for _, o := range observed {
		p := at(o.GetRef())
		p.observed = o
		status := new(corev1.PodStatus)
		if err := status.Unmarshal(o.GetProtobuf()); err != nil {
			errs = append(errs, fmt.Errorf("decode status of pod %s of podexecd: %w", fullName(o.GetRef()), err))
		} else {
			p.status = status
		}
	}
	return slices.SortedFunc(maps.Values(byUID), func(a, b *pair) int {
		return cmp.Or(cmp.Compare(a.ref.GetNamespace(), b.ref.GetNamespace()),
			cmp.Compare(a.ref.GetName(), b.ref.GetName()), cmp.Compare(a.ref.GetUid(), b.ref.GetUid()))
	}), errs
}
