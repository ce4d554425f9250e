package podexecd

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
)

// waitingPods resolves the volumes of pods. It has the pods woken whose volumes couldn't be resolved, when a CSI driver
// registers or changes: that may have been the reason. It is safe for concurrent use.
type waitingPods struct {
	claims storage.Claims
	wake   func(types.UID)
	// drop forgets the claims of a pod. It may be nil.
	drop func(types.UID)

	mu sync.Mutex
	// pods are those with a volume that isn't resolved.
	pods map[types.UID]bool
}

// Resolve is part of storage.Claims.
func (w *waitingPods) Resolve(ctx context.Context, pod *v1.Pod, spec *v1.Volume) (storage.Volume, error) {
	v, err := w.claims.Resolve(ctx, pod, spec)
	if err == nil {
		return v, nil
	}
	w.mu.Lock()
	added := !w.pods[pod.UID]
	w.pods[pod.UID] = true
	w.mu.Unlock()
	if !added {
		return v, err
	}
	// The driver may have registered between the failure and now, when no change would wake the pod.
	return w.claims.Resolve(ctx, pod, spec)
}

// Drop forgets a pod that is gone.
func (w *waitingPods) Drop(uid types.UID) {
	w.mu.Lock()
	delete(w.pods, uid)
	w.mu.Unlock()
	if w.drop != nil {
		w.drop(uid)
	}
}

// take returns the pods that wait, and forgets them.
func (w *waitingPods) take() map[types.UID]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	pods := w.pods
	w.pods = map[types.UID]bool{}
	return pods
}

// run wakes pods until ctx ends. Each function returns a channel that is closed at the next change.
func (w *waitingPods) run(ctx context.Context, changes []func() <-chan struct{}) {
	var group sync.WaitGroup
	for _, next := range changes {
		group.Go(func() {
			// A change between two rounds closes the channel that was taken before the pods were.
			for changed := next(); ; {
				select {
				case <-changed:
				case <-ctx.Done():
					return
				}
				changed = next()
				for uid := range w.take() {
					w.wake(uid)
				}
			}
		})
	}
	group.Wait()
}
