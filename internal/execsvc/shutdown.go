package execsvc

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/decide/status"
	"github.com/podstream/podstream/internal/execsvc/loop/worker"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// This file has the Agent's part in a shutdown of the machine: it implements shutdown.Pods.

// Restored is closed when the pods of the store, and those that the runtime runs, are there.
func (a *Agent) Restored() <-chan struct{} { return a.restored }

// Unended returns the pods that have not ended, those that are being ended too. A rejected pod has ended.
func (a *Agent) Unended() []*v1.Pod {
	return slices.DeleteFunc(append(a.active(), a.terminating()...), func(pod *v1.Pod) bool {
		last := a.lastStatus(pod)
		return last != nil && podmeta.IsTerminal(last.Phase)
	})
}

// End ends a pod that stays desired, with a grace period in seconds. That of a terminating pod is only shortened.
func (a *Agent) End(uid types.UID, grace int64, failure status.Failure) {
	a.workers.Kill(uid, worker.Kill{Grace: &grace, Failure: &failure})
}
