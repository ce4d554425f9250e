package execsvc

import (
	"google.golang.org/protobuf/types/known/timestamppb"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/board"
	"github.com/podstream/podstream/internal/execsvc/worker"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

var workerStates = map[worker.State]podexecv1.WorkerState{
	worker.Waiting:     podexecv1.WorkerState_WORKER_STATE_WAITING,
	worker.Syncing:     podexecv1.WorkerState_WORKER_STATE_SYNCING,
	worker.Terminating: podexecv1.WorkerState_WORKER_STATE_TERMINATING,
	worker.Terminated:  podexecv1.WorkerState_WORKER_STATE_TERMINATED,
	worker.Finished:    podexecv1.WorkerState_WORKER_STATE_FINISHED,
}

// show puts the pod on the board as it is now: desired, worked on, or found running; or takes it off if it is none of that.
func (a *Agent) show(uid types.UID) {
	a.showing.Lock()
	defer a.showing.Unlock()
	desired := a.pods.Get(uid)
	w, working := a.workers.Get(uid)
	has := a.pleg.Get(uid)
	p := board.Pod{UID: uid, Desired: desired != nil, Object: desired}
	pod := desired
	switch {
	case desired != nil:
	case working && w.Pod.Name != "":
		pod = w.Pod
	case !working && has != nil && len(has.Sandboxes)+len(has.Containers) > 0:
		// Found running, and not claimed yet: there is no more than its name.
		pod = skeleton(has)
	default:
		// One without a name is only a directory that is being removed.
		a.cfg.Board.Remove(uid)
		return
	}
	if len(pod.Spec.Containers) > 0 {
		p.Object = pod
	}
	p.Namespace, p.Name, p.Source = pod.Namespace, pod.Name, pod.Annotations[sourceAnnotation]
	if working {
		p.State, p.Err, p.WaitsFor, p.Retry = workerStates[w.State], w.Err, w.WaitsFor, w.Retry
	} else if desired != nil && p.WaitsFor == "" {
		p.WaitsFor = "the word of another source on a pod of the same name, which runs"
	}
	if s, ok := a.statuses.Get(uid); ok {
		p.Status, p.Changed = s.Status, s.Changed
	} else if has != nil && has.Active() {
		// That it runs is all that is known.
		p.Status, p.Changed = &v1.PodStatus{Phase: v1.PodRunning}, has.ReadAt
	}
	for _, pull := range a.cfg.Images.Pulls(uid) {
		m := &podexecv1.ImagePull{Image: pull.Image, AskedTime: timestamppb.New(pull.Asked)}
		if !pull.Started.IsZero() {
			m.StartedTime = timestamppb.New(pull.Started)
		}
		p.Pulls = append(p.Pulls, m)
	}
	a.cfg.Board.Set(p)
}

// statusChanged is told by the keeper of statuses.
func (a *Agent) statusChanged(uid types.UID) {
	a.storeStatus(uid)
	a.show(uid)
}

func (a *Agent) storeStatus(uid types.UID) {
	a.showing.Lock()
	defer a.showing.Unlock()
	if s, ok := a.statuses.Get(uid); ok {
		a.cfg.Store.SetStatus(uid, s.Status, s.Changed)
	}
}

// forgetStatus drops the pod's status here and in the store, with its end.
func (a *Agent) forgetStatus(uid types.UID) {
	a.showing.Lock()
	defer a.showing.Unlock()
	a.statuses.Delete(uid)
	a.cfg.Store.Forget(uid)
}
