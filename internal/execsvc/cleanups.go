package execsvc

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/observed"
	"github.com/podstream/podstream/internal/execsvc/worker"
)

// orphanGrace is the grace period in seconds of a pod of which nothing is recorded, as in the kubelet.
const orphanGrace = 1

// HandlePodCleanups is part of syncloop.SyncHandler: it mends what no event tells of. The order is the kubelet's: what is kept of pods
// that are gone, their directories, desired pods that nobody works on, evicted ones, pods that nobody desires, dead containers, backoffs.
func (a *Agent) HandlePodCleanups(ctx context.Context) error {
	if a.cfg.Health != nil {
		a.cfg.Health(a.pleg.Health())
	}
	found, current := a.pleg.Pods()
	if !current {
		// Without a true picture of what runs nothing may be cleaned up. The pleg has said what is wrong.
		return nil
	}
	for _, uid := range a.statuses.UIDs() {
		if !a.known(uid) {
			a.forget(uid)
		}
	}
	there := map[types.UID]bool{}
	for _, pod := range found {
		there[pod.UID] = true
	}
	err := a.removeLeftoverDirectories(there)
	for _, pod := range a.pods.All() {
		if _, working := a.workers.Get(pod.UID); !working {
			a.dispatch(pod)
		}
	}
	a.reviveEvicted()
	for _, pod := range found {
		// A worker may have ended with it since it was read.
		if !a.known(pod.UID) && a.pods.Settled(pod.Source) && a.pleg.Get(pod.UID) != nil {
			a.removeLeftover(pod)
		}
	}
	err = errors.Join(err, a.cfg.World.Balance(a.active()))
	a.cfg.Runtime.ForgetBackoff()
	if a.cfg.Garbage != nil {
		err = errors.Join(err, a.cfg.Garbage.Collect(ctx, found, a.known, a.pods.Settled("")))
	}
	return err
}

// active are the pods that aren't to end.
func (a *Agent) active() []*v1.Pod {
	var pods []*v1.Pod
	for _, w := range a.workers.All() {
		if w.State == worker.Waiting || w.State == worker.Syncing {
			pods = append(pods, a.admission.allocated(w.Pod))
		}
	}
	return pods
}

// forget drops all that is kept of a pod of which nothing is left.
func (a *Agent) forget(uid types.UID) {
	a.probes.Remove(uid)
	a.cfg.Images.Forget(uid)
	a.forgetStatus(uid)
	a.madeRoom(uid)
	a.tellRefused(a.refused.clear(uid))
	a.show(uid)
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
	uids, err := a.cfg.World.Leftovers()
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
