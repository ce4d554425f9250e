package execsvc

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/service"
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

// Show is every pod that is desired, worked on, or found running, for service.New.
func (a *Agent) Show() []service.Pod {
	var out []service.Pod
	shown := map[string]bool{}
	add := func(pod *v1.Pod) {
		if shown[string(pod.UID)] {
			return
		}
		shown[string(pod.UID)] = true
		p := service.Pod{
			UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Source: pod.Annotations[sourceAnnotation],
			Desired: a.pods.Get(pod.UID) != nil,
		}
		if w, ok := a.workers.Get(pod.UID); ok {
			p.State, p.Err = workerStates[w.State], w.Err
		}
		if s, ok := a.statuses.Get(pod.UID); ok {
			p.Status, p.Changed = s.Status, s.Changed
		}
		out = append(out, p)
	}
	for _, pod := range a.pods.All() {
		add(pod)
	}
	for _, w := range a.workers.All() {
		// One without a name is only a directory that is being removed.
		if w.Pod.Name != "" {
			add(w.Pod)
		}
	}
	found, _ := a.pleg.Pods()
	for _, has := range found {
		if shown[string(has.UID)] {
			continue
		}
		add(skeleton(has))
		if last := &out[len(out)-1]; last.Status == nil && has.Active() {
			// Found running, and not claimed yet: that it runs is all that is known.
			last.Status, last.Changed = &v1.PodStatus{Phase: v1.PodRunning}, has.ReadAt
		}
	}
	return out
}
