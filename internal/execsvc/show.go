package execsvc

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/loop/worker"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

var workerStates = map[worker.State]podexecv1.WorkerState{
	worker.Waiting:     podexecv1.WorkerState_WORKER_STATE_WAITING,
	worker.Syncing:     podexecv1.WorkerState_WORKER_STATE_SYNCING,
	worker.Terminating: podexecv1.WorkerState_WORKER_STATE_TERMINATING,
	worker.Terminated:  podexecv1.WorkerState_WORKER_STATE_TERMINATED,
	worker.Finished:    podexecv1.WorkerState_WORKER_STATE_FINISHED,
}

// show sets the pod in the pod view if it is desired, has a worker, or was found running; otherwise it removes it.
func (a *Agent) show(uid types.UID) {
	a.showing.Lock()
	defer a.showing.Unlock()
	desired := a.pods.Get(uid)
	w, working := a.workers.Get(uid)
	has := a.pleg.Get(uid)
	p := podview.Pod{UID: uid, Desired: desired != nil, Object: desired}
	pod := desired
	switch {
	case desired != nil:
	case working && w.Pod.Name != "":
		pod = w.Pod
	case !working && has != nil && len(has.Sandboxes)+len(has.Containers) > 0:
		// Found running, and not claimed yet: only its name is known.
		pod = skeleton(has)
	default:
		// A worker of a pod without a name only removes a directory.
		a.cfg.Board.Remove(uid)
		return
	}
	if len(pod.Spec.Containers) > 0 {
		p.Object = pod
	}
	p.Namespace, p.Name, p.Source = pod.Namespace, pod.Name, podmeta.Source(pod)
	if working {
		p.State, p.Err, p.WaitsFor, p.Retry = workerStates[w.State], w.Err, w.WaitsFor, w.Retry
	} else if desired != nil && p.WaitsFor == "" {
		p.WaitsFor = "another source to be ready: its pod of the same name runs"
	}
	if s, ok := a.statuses.Get(uid); ok {
		p.Status, p.Changed = s.Status, s.Changed
	} else if has != nil && has.Active() {
		// Nothing more is known of it.
		p.Status, p.Changed = &v1.PodStatus{Phase: v1.PodRunning}, has.ReadAt
	}
	for _, pull := range a.cfg.Images.Pulls(uid) {
		p.Pulls = append(p.Pulls, pull.Message())
	}
	a.cfg.Board.Set(p)
}

// ShowPulls shows how far the pod's pulls are.
func (a *Agent) ShowPulls(uid types.UID) { a.show(uid) }

// statusChanged is status.Config.Changed.
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

// dropStatus deletes the pod's status, and its records in the store.
func (a *Agent) dropStatus(uid types.UID) {
	a.showing.Lock()
	defer a.showing.Unlock()
	a.statuses.Delete(uid)
	a.cfg.Store.Drop(uid)
}
