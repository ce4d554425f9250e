package apistatus

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/board"
	"github.com/podstream/podstream/internal/execsvc/criconfig"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

const (
	hashAnnotation = "kubernetes.io/config.hash"
	// rejected begins the message of a pod that was refused: nothing of it is ever started, though its worker goes on.
	rejected = "Pod was rejected: "
)

// mirrors tells whether mirror is the picture of this very static pod, and not on its way out.
func mirrors(mirror, static *v1.Pod) bool {
	hash := mirror.Annotations[v1.MirrorPodAnnotationKey]
	return hash != "" && hash == static.Annotations[hashAnnotation] && mirror.DeletionTimestamp == nil
}

// task is what the API server has to be asked for.
type task struct {
	uid             types.UID
	namespace, name string
	// status is what it should show instead of there. Nil: the pod's deletion is to be completed.
	status, there *v1.PodStatus
	// pod is the pod by which statuses are normalised.
	pod *v1.Pod
	// urgent is set if others wait for it.
	urgent bool
	// since is when it became due.
	since time.Time
}

// plan is what is to be asked for, given the pod as it is shown, its desired object or mirrored one (spec), and the API server's copy of
// it (there). Nil: nothing.
func plan(p board.Pod, spec, there *v1.Pod, now time.Time) *task {
	t := &task{uid: there.UID, namespace: there.Namespace, name: there.Name, pod: spec, there: &there.Status}
	if p.State == podexecv1.WorkerState_WORKER_STATE_UNSPECIFIED || p.Status == nil || len(p.Status.Conditions) == 0 {
		// Nobody works on it, or nothing is known of it but that it runs: what the API server knows is more.
		return nil
	}
	if !criconfig.FromAPI(spec) && terminal(there.Status.Phase) && !terminal(p.Status.Phase) {
		// The static pod has begun anew, and so will its mirror pod: no pod's end is taken back.
		return nil
	}
	in := mergeInput{
		spec: spec, own: p.Status, there: &there.Status, static: !criconfig.FromAPI(spec), now: metav1.NewTime(now),
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

// completion is the completion of a pod's deletion, once all of it is torn down and the API server knows how it ended. Nil: it isn't due.
func completion(p board.Pod, spec, there *v1.Pod) *task {
	if !criconfig.FromAPI(spec) || there.DeletionTimestamp == nil || p.State != podexecv1.WorkerState_WORKER_STATE_FINISHED || !terminal(there.Status.Phase) {
		return nil
	}
	return &task{uid: there.UID, namespace: there.Namespace, name: there.Name, pod: spec, there: &there.Status, urgent: true}
}

// running tells whether a container of any kind runs.
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
