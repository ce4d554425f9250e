package podexecd

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
)

// changes are those of something by which a volume can be resolved.
type changes struct {
	// next returns a channel that is closed at the next change. first is the one of the first call.
	next  func() <-chan struct{}
	first <-chan struct{}
}

// waitingPods resolves the volumes of pods. It has the pods woken whose volumes couldn't be resolved, when a CSI driver
// registers or changes: that may have been the reason. It is safe for concurrent use.
type waitingPods struct {
	claims storage.Claims
	wake   func(types.UID)
	// drop forgets the claims of a pod, and retry has calls made again that wait for a driver. Both may be nil.
	drop  func(types.UID)
	retry func()
	// changes are what follow sets.
	changes []changes

	mu sync.Mutex
	// pods are those with a volume that isn't resolved, and refused those with a volume that another pod uses.
	pods, refused map[types.UID]bool
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

// refuse has the pod woken when another one is gone.
func (w *waitingPods) refuse(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused[uid] = true
}

// Drop forgets a pod that is gone, with its volumes. The pods that may have waited for one of them are woken.
func (w *waitingPods) Drop(uid types.UID) {
	w.mu.Lock()
	delete(w.pods, uid)
	delete(w.refused, uid)
	refused := w.refused
	w.refused = map[types.UID]bool{}
	w.mu.Unlock()
	for other := range refused {
		w.wake(other)
	}
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

// follow sets by what pods are woken. Each function returns a channel that is closed at the next change. It is called
// before the first Resolve, so that no change is missed.
func (w *waitingPods) follow(next ...func() <-chan struct{}) {
	for _, f := range next {
		w.changes = append(w.changes, changes{f, f()})
	}
}

// After burst changes, pods are woken once each steady: a driver may register again and again, and each time all pods that wait would
// read their claims from the API server.
const steady, burst = 5 * time.Second, 10

// run wakes pods until ctx ends.
func (w *waitingPods) run(ctx context.Context) {
	var group sync.WaitGroup
	pace := rate.NewLimiter(rate.Every(steady), burst)
	for _, c := range w.changes {
		group.Go(func() {
			// A change between two rounds closes the channel that was taken before the pods were.
			for changed := c.first; ; {
				select {
				case <-changed:
				case <-ctx.Done():
					return
				}
				if pace.Wait(ctx) != nil {
					return
				}
				changed = c.next()
				if w.retry != nil {
					w.retry()
				}
				for uid := range w.take() {
					w.wake(uid)
				}
			}
		})
	}
	group.Wait()
}
