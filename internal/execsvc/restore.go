package execsvc

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/loop/store"
	"github.com/podstream/podstream/internal/execsvc/loop/worker"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// restore starts the pods of the store, and continues the terminations of the store. It runs after the first relist,
// before any event of the stream.
func (a *Agent) restore() {
	defer close(a.restored)
	a.restorePods()
	for uid, end := range a.cfg.Restored.Ends {
		a.restoreEnd(uid, end)
	}
	all := a.pods.All()
	a.expect(all)
	idle := func(pod *v1.Pod) int {
		if a.runs(pod.UID) {
			return 0
		}
		return 1
	}
	// Of several pods of one name, the one that runs keeps it: the removal of its predecessor may be held.
	slices.SortFunc(all, func(x, y *v1.Pod) int { return cmp.Compare(idle(x), idle(y)) })
	for _, pod := range all {
		if _, working := a.workers.Get(pod.UID); !working {
			a.dispatch(pod)
		}
		a.loop.Answer()
	}
	for uid := range a.cfg.Restored.Statuses {
		if !a.known(uid) {
			a.restarts.Drop(uid)
			a.cfg.Store.Drop(uid)
		}
	}
	for uid := range a.cfg.Restored.Allocations {
		if !a.known(uid) {
			a.release(uid)
		}
	}
	if n := len(a.cfg.Restored.Pods); n > 0 {
		a.log.Info("pods restored from the store", "pods", n, "ending", len(a.cfg.Restored.Ends),
			"revision", a.cfg.Restored.Cursor.GetRevision())
	}
}

// restorePods restores the desired pods with their statuses. Those that run are admitted before any other pod, or any
// change of one.
func (a *Agent) restorePods() {
	for _, known := range a.cfg.Restored.Pods {
		if podmeta.IsMirror(known.Object) {
			a.cfg.Mirrors.Put(known.Object)
			continue
		}
		a.pods.Put(known.Object)
		a.cfg.Starts.Observe(known.Object)
		if s, ok := a.cfg.Restored.Statuses[known.UID]; ok {
			a.statuses.Restore(known.Object, s.Status, s.Changed)
		}
		a.adopt(known.Object)
		a.loop.Answer()
	}
}

// restoreEnd continues a termination that began before the restart.
func (a *Agent) restoreEnd(uid types.UID, end store.End) {
	t := worker.Termination{Grace: end.Grace, Deadline: end.Deadline, Failure: end.Failure}
	for container, begun := range end.Stopping {
		a.cfg.Runtime.RestoreSignaled(container, begun)
	}
	if end.Object != nil {
		a.adopt(end.Object)
	}
	pod := a.pods.Get(uid)
	if !end.Removed && pod != nil {
		a.workers.Resume(pod, t, false)
		return
	}
	gone := end.Object.DeepCopy()
	if gone == nil {
		gone = skeleton(&observed.Pod{UID: uid, Namespace: end.Namespace, Name: end.Name, Source: end.Source})
	}
	gone.Spec.TerminationGracePeriodSeconds = &end.Grace
	if s, ok := a.cfg.Restored.Statuses[uid]; ok {
		a.statuses.Restore(gone, s.Status, s.Changed)
	}
	a.log.Info("continuing the termination of a removed pod", "pod", end.Namespace+"/"+end.Name, "uid", uid, "deadline", t.Deadline)
	a.workers.Resume(gone, t, true)
	if pod != nil {
		// The pod was added again: its worker starts it after this termination.
		a.workers.Update(pod)
	}
}
