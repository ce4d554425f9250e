package podexecd

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// podQueue holds the UIDs of pods that the agent must sync. Its producers are constructed before the agent. It is safe for concurrent use.
type podQueue struct {
	ready chan struct{}

	mu   sync.Mutex
	uids map[types.UID]bool
}

func newPodQueue() *podQueue {
	return &podQueue{ready: make(chan struct{}, 1), uids: map[types.UID]bool{}}
}

// Add adds a pod. It doesn't block.
func (q *podQueue) Add(uid types.UID) {
	q.mu.Lock()
	q.uids[uid] = true
	q.mu.Unlock()
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// Ready receives a value when Take has pods to return.
func (q *podQueue) Ready() <-chan struct{} { return q.ready }

// Take returns the pods that were added since the last call, each once.
func (q *podQueue) Take() []types.UID {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := make([]types.UID, 0, len(q.uids))
	for uid := range q.uids {
		out = append(out, uid)
	}
	clear(q.uids)
	return out
}

// forward passes what a package publishes through its Ready and Take to do, until ctx ends.
func forward[T any](ctx context.Context, from interface {
	Ready() <-chan struct{}
	Take() []T
}, do func([]T),
) {
	for {
		select {
		case <-from.Ready():
			do(from.Take())
		case <-ctx.Done():
			return
		}
	}
}
