package apistatus

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

const (
	// rejected begins the message of a rejected pod: none of its containers is ever started, though its worker
	// continues.
	rejected = "Pod was rejected: "
)

// mirrors reports whether mirror is the mirror pod of this static pod, and isn't being deleted.
func mirrors(mirror, static *v1.Pod) bool {
	hash := mirror.Annotations[podmeta.MirrorAnnotation]
	return hash != "" && hash == static.Annotations[podmeta.HashAnnotation] && mirror.DeletionTimestamp == nil
}

// task is a request to send.
type task struct {
	uid             types.UID
	namespace, name string
	// status is the new status, and there the current one. Nil: the pod's deletion has to be completed.
	status, there *v1.PodStatus
	// pod is the pod for which statuses are normalised.
	pod *v1.Pod
	// urgent is set if others wait for the result.
	urgent bool
	// since is when it became due.
	since time.Time
}

// plan returns the request to send, given the pod on the board, its desired object or mirrored one (spec), and the
// API server's copy of it (there). Nil: none.
func plan(p podview.Pod, spec, there *v1.Pod, now time.Time) *task {
	t := &task{uid: there.UID, namespace: there.Namespace, name: there.Name, pod: spec, there: &there.Status}
	if p.State == podexecv1.WorkerState_WORKER_STATE_UNSPECIFIED || p.Status == nil ||
		len(p.Status.Conditions) == 0 && !strings.HasPrefix(p.Status.Message, rejected) {
		// It has no worker, or only its being running is known: the API server's status has more.
		return nil
	}
	if !podmeta.FromAPI(spec) && podmeta.IsTerminal(there.Status.Phase) && !podmeta.IsTerminal(p.Status.Phase) {
		// The static pod has started again, and its mirror pod will be recreated: an end is never taken back.
		return nil
	}
	in := mergeInput{
		spec: spec, own: p.Status, there: &there.Status, static: !podmeta.FromAPI(spec), now: metav1.NewTime(now),
		over: p.State == podexecv1.WorkerState_WORKER_STATE_TERMINATED || p.State == podexecv1.WorkerState_WORKER_STATE_FINISHED,
	}
	if in.static {
		in.generation = there.Generation
	}
	in.mayRun = running(p.Status) || (!in.over && !strings.HasPrefix(p.Status.Message, rejected))
	t.status = merge(in)
	if !same(spec, &there.Status, t.status) {
		t.urgent = t.status.Phase != there.Status.Phase || ready(t.status) != ready(&there.Status)
		return t
	}
	return completion(p, spec, there)
}

// completion returns the completion of a pod's deletion, once it is torn down and the API server has its final
// status. Nil: not yet.
func completion(p podview.Pod, spec, there *v1.Pod) *task {
	if !podmeta.FromAPI(spec) || there.DeletionTimestamp == nil || p.State != podexecv1.WorkerState_WORKER_STATE_FINISHED || !podmeta.IsTerminal(there.Status.Phase) {
		return nil
	}
	return &task{uid: there.UID, namespace: there.Namespace, name: there.Name, pod: spec, there: &there.Status, urgent: true}
}

// running reports whether a container of any kind runs.
func running(s *v1.PodStatus) bool {
	for _, statuses := range [][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range statuses {
			if statuses[i].State.Running != nil {
				return true
			}
		}
	}
	return false
}

func ready(s *v1.PodStatus) bool {
	c := find(s.Conditions, v1.PodReady)
	return c != nil && c.Status == v1.ConditionTrue
}
