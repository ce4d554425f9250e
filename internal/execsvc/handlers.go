package execsvc

import (
	"context"
	"fmt"
	"github.com/podstream/podstream/internal/execsvc/observed"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
)

// orphanGrace is the grace period in seconds of a pod of which nothing is recorded, as in the kubelet.
const orphanGrace = 1

// HandlePodAdditions is part of syncloop.SyncHandler.
func (a *Agent) HandlePodAdditions(pods []*v1.Pod) {
	for _, pod := range pods {
		if isMirror(pod) {
			continue
		}
		a.pods.Put(pod)
		a.dispatch(pod)
	}
}

// isMirror tells whether the pod is the API server's picture of a static pod, which is nothing to run.
func isMirror(pod *v1.Pod) bool {
	_, mirror := pod.Annotations[mirrorAnnotation]
	return mirror
}

// HandlePodUpdates is part of syncloop.SyncHandler.
func (a *Agent) HandlePodUpdates(pods []*v1.Pod) { a.HandlePodAdditions(pods) }

// HandlePodRemoves is part of syncloop.SyncHandler.
func (a *Agent) HandlePodRemoves(pods []*v1.Pod) {
	for _, gone := range pods {
		pod := a.pods.Remove(gone.UID)
		if pod == nil {
			// It may be left from an earlier life; housekeeping finds it if it is.
			continue
		}
		a.workers.Remove(pod, criconfig.GracePeriod(pod))
	}
}

// HandlePodReconcile is part of syncloop.SyncHandler. The status of a static pod means nothing here; that of others is the
// API server's copy of what this agent told it.
func (a *Agent) HandlePodReconcile(pods []*v1.Pod) {
	for _, pod := range pods {
		if !isMirror(pod) {
			a.pods.Put(pod)
		}
	}
}

// HandlePodSyncs is part of syncloop.SyncHandler.
func (a *Agent) HandlePodSyncs(uids []types.UID) {
	for _, uid := range uids {
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
		}
	}
}

// HandlePodCleanups is part of syncloop.SyncHandler: it mends what no event tells of.
func (a *Agent) HandlePodCleanups(context.Context) error {
	found, current := a.pleg.Pods()
	if !current {
		// Without a true picture of what runs nothing may be cleaned up. The pleg has said what is wrong.
		return nil
	}
	for _, pod := range a.pods.All() {
		if _, working := a.workers.Get(pod.UID); !working {
			a.dispatch(pod)
		}
	}
	there := map[types.UID]bool{}
	for _, pod := range found {
		there[pod.UID] = true
		// A worker may have ended with it since it was read.
		if !a.known(pod.UID) && a.pods.Settled(pod.Source) && a.pleg.Get(pod.UID) != nil {
			a.removeLeftover(pod)
		}
	}
	for _, uid := range a.statuses.UIDs() {
		if !a.known(uid) {
			a.statuses.Delete(uid)
		}
	}
	a.cfg.Runtime.ForgetBackoff()
	return a.removeLeftoverDirectories(there)
}

// removeLeftover ends a pod that runs and isn't desired: it was removed while this agent was down. It gets the grace period
// that was recorded when it was made.
func (a *Agent) removeLeftover(has *observed.Pod) {
	grace := int64(orphanGrace)
	for _, c := range has.Containers {
		if c.GracePeriod != nil {
			grace = max(grace, *c.GracePeriod)
		}
	}
	a.log.Info("pod was left from before and isn't wanted any more; removing it",
		"pod", has.Namespace+"/"+has.Name, "uid", has.UID, "source", has.Source, "grace_seconds", grace)
	pod := skeleton(has)
	pod.Spec.TerminationGracePeriodSeconds = &grace
	a.workers.Remove(pod, grace)
}

// skeleton is what is known of a pod that was only found running.
func skeleton(has *observed.Pod) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		UID: has.UID, Namespace: has.Namespace, Name: has.Name, Annotations: map[string]string{sourceAnnotation: has.Source},
	}}
}

// removeLeftoverDirectories gives the directories of pods of which nothing else is left to workers, which remove them. They
// don't say from which source they come, so all must have spoken.
func (a *Agent) removeLeftoverDirectories(there map[types.UID]bool) error {
	if !a.pods.Settled("") {
		return nil
	}
	uids, err := a.cfg.Volumes.Leftovers()
	if err != nil {
		return fmt.Errorf("look for directories of pods that are gone: %w", err)
	}
	for _, uid := range uids {
		if !there[uid] && !a.known(uid) && a.pleg.Get(uid) == nil {
			a.log.Info("removing the directory of a pod that is gone", "uid", uid)
			a.workers.Remove(skeleton(&observed.Pod{UID: uid}), orphanGrace)
		}
	}
	return nil
}

// The annotations by which a pod's source is known; sourceAnnotation is set on every pod by podconfigd's merge.
const (
	sourceAnnotation = "kubernetes.io/config.source"
	mirrorAnnotation = "kubernetes.io/config.mirror"
)
