package execsvc

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// HandlePodCleanups is part of syncloop.SyncHandler: it repairs states for which there is no event. The order is the
// kubelet's: pods that don't end, statuses of pods that are gone, their directories, desired pods without a worker, evicted pods, orphaned
// pods, dead containers, backoffs. It doesn't wait for the chores: it uses the result of their last round.
func (a *Agent) HandlePodCleanups(ctx context.Context) error {
	if a.cfg.Health != nil {
		a.cfg.Health(a.pleg.Health())
	}
	a.recordOverdue()
	result, idle := a.chores.take(a.cfg.Clock.Now())
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
	a.removeOrphanedDirectories(result.orphans, found)
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
	a.cfg.Runtime.DropBackoff()
	if idle {
		a.chores.begin(ctx, a.cfg.Clock.Now(), func(ctx context.Context) chored { return a.chore(ctx, found) })
	}
	return result.err
}

// removeOrphanedDirectories starts workers for directories of pods that are gone; these remove them. A directory
// doesn't have the name of its source, so all sources must be ready.
func (a *Agent) removeOrphanedDirectories(uids []types.UID, found []*observed.Pod) {
	if !a.pods.Settled("") {
		return
	}
	swept := 0
	defer func() { a.metrics.swept.Set(float64(swept)) }()
	there := map[types.UID]bool{}
	for _, pod := range found {
		there[pod.UID] = true
	}
	for _, uid := range uids {
		if !there[uid] && !a.known(uid) && a.pleg.Get(uid) == nil {
			a.log.Info("removing the directory of a pod that is gone", "uid", uid)
			a.workers.Remove(skeleton(&observed.Pod{UID: uid}), orphanGrace)
			swept++
		}
	}
}
