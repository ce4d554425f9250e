package execsvc

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/decide/admit"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// HandlePodAdditions is part of syncloop.SyncHandler.
func (a *Agent) HandlePodAdditions(pods []*v1.Pod) {
	a.expect(pods)
	for _, pod := range pods {
		if podmeta.IsMirror(pod) {
			a.cfg.Mirrors.Put(pod)
		} else {
			a.metrics.countRequested(a.pods.Get(pod.UID), pod)
			a.pods.Put(pod)
			a.cfg.Starts.Observe(pod)
			a.dispatch(pod)
			a.show(pod.UID)
		}
		a.cfg.PodChanged(pod)
		a.loop.Answer()
	}
}

// HandlePodUpdates is part of syncloop.SyncHandler.
func (a *Agent) HandlePodUpdates(pods []*v1.Pod) {
	for _, pod := range pods {
		if before := a.pods.Get(pod.UID); before != nil && !podmeta.IsMirror(pod) {
			a.checkFeatures(before, pod)
		}
	}
	a.HandlePodAdditions(pods)
}

// checkFeatures records an event if the change of a pod needs features that the node doesn't declare. As with the
// kubelet, the change is carried out as far as it can be.
func (a *Agent) checkFeatures(before, pod *v1.Pod) {
	missing := a.cfg.Node().Declared.MissingForUpdate(before, pod)
	if len(missing) == 0 {
		return
	}
	a.log.Warn("pod's update needs features that the node doesn't declare", "pod", podmeta.LogName(pod), "uid", pod.UID, "features", missing)
	a.cfg.Events.Record(pod, "", events.Warning, events.FailedNodeDeclaredFeaturesCheck, admit.MissingFeatures(missing))
}

// HandlePodRemoves is part of syncloop.SyncHandler.
func (a *Agent) HandlePodRemoves(pods []*v1.Pod) {
	for _, gone := range pods {
		if mirror := a.cfg.Mirrors.Remove(gone.UID); mirror != nil {
			a.cfg.PodChanged(mirror)
			continue
		}
		pod := a.pods.Remove(gone.UID)
		if pod == nil {
			// It may run since before the restart; HandlePodCleanups finds it then.
			continue
		}
		a.cfg.Starts.Drop(pod.UID)
		a.metrics.dropResize(a.cfg.Clock.Now(), pod, a.lastStatus(pod))
		a.workers.Remove(pod, podmeta.GracePeriod(pod))
		a.show(pod.UID)
		a.cfg.PodChanged(pod)
	}
}

// HandlePodReconcile is part of syncloop.SyncHandler. The status of a static pod has no meaning here. The status of
// other pods is the API server's copy of the one that podexecd has sent; readiness gates and a terminal phase that
// other clients have set count.
func (a *Agent) HandlePodReconcile(pods []*v1.Pod) {
	for _, pod := range pods {
		if podmeta.IsMirror(pod) {
			a.cfg.Mirrors.Put(pod)
			a.cfg.PodChanged(pod)
			continue
		}
		a.pods.Put(pod)
		a.cfg.Starts.Observe(pod)
		a.cfg.PodChanged(pod)
		if len(pod.Spec.ReadinessGates) > 0 || podmeta.IsTerminal(pod.Status.Phase) {
			a.workers.Update(pod)
		}
	}
}

// HandlePodSyncs is part of syncloop.SyncHandler.
func (a *Agent) HandlePodSyncs(uids []types.UID) {
	for _, uid := range uids {
		if _, working := a.workers.Get(uid); !working {
			a.show(uid)
			continue
		}
		a.workers.Sync(uid)
	}
}

// HandleProbes is part of syncloop.SyncHandler: the status gets the result of a probe at once, and the worker acts on
// it.
func (a *Agent) HandleProbes(uids []types.UID) {
	for _, uid := range uids {
		pod := a.pods.Get(uid)
		if _, seen := a.statuses.Get(uid); pod != nil && seen {
			a.observe(pod, nil)
		}
		a.workers.Sync(uid)
	}
}

// HandleSources is part of syncloop.SyncHandler.
func (a *Agent) HandleSources(ready map[string]bool, complete bool) {
	if complete {
		a.pods.SetSources(ready)
	}
	for source, r := range ready {
		a.pods.SetReady(source, r)
	}
	for uid := range a.waiting {
		if pod := a.pods.Get(uid); pod != nil {
			a.dispatch(pod)
		} else {
			delete(a.waiting, uid)
			a.show(uid)
		}
	}
}
