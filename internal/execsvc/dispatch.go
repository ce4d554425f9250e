package execsvc

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// dispatch passes a desired pod to its worker, unless it has to wait for another source. HandlePodCleanups tries again
// for pods without a worker.
func (a *Agent) dispatch(pod *v1.Pod) {
	found, _ := a.pleg.Pods()
	for _, other := range found {
		if other.UID == pod.UID || other.Name != pod.Name || other.Namespace != pod.Namespace || !other.Active() || a.known(other.UID) {
			continue
		}
		// A pod of the same full name runs since before the restart, and is not desired. A name is unique within a
		// source: if the sources are the same, the source has given the name to this pod. Otherwise the other source
		// must be ready first.
		if other.Source != podmeta.Source(pod) && !a.pods.Settled(other.Source) {
			if a.waiting[pod.UID] == other.UID {
				return
			}
			a.waiting[pod.UID] = other.UID
			a.log.Info("pod waits for another source to be ready: its pod of the same name runs",
				"pod", podmeta.LogName(pod), "uid", pod.UID, "other", other.UID, "source", other.Source)
			a.show(pod.UID)
			return
		}
		a.removeOrphan(other)
	}
	delete(a.waiting, pod.UID)
	a.workers.Update(pod)
}

// orphanGrace is the grace period in seconds of a pod without a recorded one, as in the kubelet.
const orphanGrace = 1

// removeOrphan ends a pod that runs and is not desired: it was removed while podexecd was down. The grace period is
// the one that was recorded when its containers were created.
func (a *Agent) removeOrphan(has *observed.Pod) {
	a.metrics.orphaned.Inc()
	grace := int64(orphanGrace)
	for _, c := range has.Containers {
		if c.GracePeriod != nil {
			grace = max(grace, *c.GracePeriod)
		}
	}
	a.log.Info("removing an orphaned pod",
		"pod", has.Namespace+"/"+has.Name, "uid", has.UID, "source", has.Source, "grace_seconds", grace)
	pod := skeleton(has)
	pod.Spec.TerminationGracePeriodSeconds = &grace
	a.workers.Remove(pod, grace)
}
