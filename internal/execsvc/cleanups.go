package execsvc

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// HandlePodCleanups is part of syncloop.SyncHandler: it repairs states for which there is no event. The order is the
// kubelet's: statuses of pods that are gone, their directories, desired pods without a worker, evicted pods, orphaned
// pods, dead containers, backoffs.
func (a *Agent) HandlePodCleanups(ctx context.Context) error {
	if a.cfg.Health != nil {
		a.cfg.Health(a.pleg.Health())
	}
	found, current := a.pleg.Pods()
	if !current {
		// Nothing may be removed without a current relist. The pleg has logged the error.
		return nil
	}
	for _, uid := range a.statuses.UIDs() {
		if !a.known(uid) {
			a.drop(uid)
		}
	}
	there := map[types.UID]bool{}
	for _, pod := range found {
		there[pod.UID] = true
	}
	err := a.removeOrphanedDirectories(there)
	for _, pod := range a.pods.All() {
		if _, working := a.workers.Get(pod.UID); !working {
			a.dispatch(pod)
		}
	}
	a.restartEvicted()
	for _, pod := range found {
		// The worker may have ended since the relist.
		if !a.known(pod.UID) && a.pods.Settled(pod.Source) && a.pleg.Get(pod.UID) != nil {
			a.removeOrphan(pod)
		}
	}
	err = errors.Join(err, a.cfg.PodSetup.BalanceCgroups(a.active()))
	a.cfg.Runtime.DropBackoff()
	if a.cfg.Garbage != nil {
		err = errors.Join(err, a.cfg.Garbage.Collect(ctx, found, a.known, a.pods.Settled("")))
	}
	return err
}

// removeOrphanedDirectories starts workers for directories of pods that are gone; these remove them. A directory
// doesn't have the name of its source, so all sources must be ready.
func (a *Agent) removeOrphanedDirectories(there map[types.UID]bool) error {
	if !a.pods.Settled("") {
		return nil
	}
	uids, err := a.cfg.PodSetup.PodsOnDisk()
	if err != nil {
		return fmt.Errorf("list directories of pods that are gone: %w", err)
	}
	for _, uid := range uids {
		if !there[uid] && !a.known(uid) && a.pleg.Get(uid) == nil {
			a.log.Info("removing the directory of a pod that is gone", "uid", uid)
			a.workers.Remove(skeleton(&observed.Pod{UID: uid}), orphanGrace)
		}
	}
	return nil
}
