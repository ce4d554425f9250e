package podsummary

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// The kubelet's annotations that podctl reads.
const (
	SeenAnnotation = "kubernetes.io/config.seen"
	HashAnnotation = "kubernetes.io/config.hash"
)

// Pod is one pod, desired and observed. At least one half is set.
type Pod struct {
	Ref      *podconfigv1.PodRef
	Desired  *podconfigv1.Pod       // nil: podconfigd doesn't have it
	Content  *corev1.Pod            // content of Desired; nil also if it can't be decoded
	Observed *podexecv1.ObservedPod // nil: podexecd doesn't have it
	Status   *corev1.PodStatus      // content of Observed; nil also if it can't be decoded
}

// Source returns the pod's source, from either half.
func (p *Pod) Source() string { return cmp.Or(p.Desired.GetSource(), p.Observed.GetSource()) }

// Join joins the halves by UID and sorts by namespace, name and UID. Content that can't be decoded is left out; the
// errors name its pods.
func Join(desired []*podconfigv1.Pod, observed []*podexecv1.ObservedPod) (pairs []*Pod, errs []error) {
	byUID := map[string]*Pod{}
	at := func(ref *podconfigv1.PodRef) *Pod {
		p := byUID[ref.GetUid()]
		if p == nil {
			p = &Pod{Ref: ref}
			byUID[ref.GetUid()] = p
		}
		return p
	}
	for _, d := range desired {
		p := at(d.GetRef())
		p.Desired = d
		if pod := new(corev1.Pod); d.GetProtobuf() != nil {
			if err := pod.Unmarshal(d.GetProtobuf()); err != nil {
				errs = append(errs, fmt.Errorf("decode pod %s of podconfigd: %w", FullName(d.GetRef()), err))
			} else {
				p.Content = pod
			}
		}
	}
	for _, o := range observed {
		p := at(o.GetRef())
		p.Observed = o
		status := new(corev1.PodStatus)
		if err := status.Unmarshal(o.GetProtobuf()); err != nil {
			errs = append(errs, fmt.Errorf("decode status of pod %s of podexecd: %w", FullName(o.GetRef()), err))
		} else {
			p.Status = status
		}
	}
	return slices.SortedFunc(maps.Values(byUID), func(a, b *Pod) int {
		return cmp.Or(cmp.Compare(a.Ref.GetNamespace(), b.Ref.GetNamespace()),
			cmp.Compare(a.Ref.GetName(), b.Ref.GetName()), cmp.Compare(a.Ref.GetUid(), b.Ref.GetUid()))
	}), errs
}

// FullName returns a pod's namespace/name.
func FullName(ref *podconfigv1.PodRef) string { return ref.GetNamespace() + "/" + ref.GetName() }

// Age returns the time since then; empty if then is nil.
func Age(now time.Time, then *timestamppb.Timestamp) string {
	if then == nil {
		return ""
	}
	return duration.HumanDuration(now.Sub(then.AsTime()))
}
