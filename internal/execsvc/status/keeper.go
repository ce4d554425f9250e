package status

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// sourceAnnotation is where a pod bears its source's name.
const sourceAnnotation = "kubernetes.io/config.source"

// Kept is a pod's last status.
type Kept struct {
	UID             types.UID
	Namespace, Name string
	// Source is the source that the pod came from.
	Source string
	// Changed is when the status last became another.
	Changed time.Time
	// Status is shared and must not be changed.
	Status *v1.PodStatus
}

// Keeper keeps the last status of each pod. It is safe for concurrent use.
type Keeper struct {
	clock clock.PassiveClock
	mu    sync.RWMutex
	pods  map[types.UID]Kept
}

// NewKeeper returns an empty Keeper.
func NewKeeper() *Keeper {
	return &Keeper{clock: clock.RealClock{}, pods: map[types.UID]Kept{}}
}

// Set keeps the pod's status, which must not be changed afterwards, and tells whether it differs from the one before.
func (k *Keeper) Set(pod *v1.Pod, status *v1.PodStatus) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	last, ok := k.pods[pod.UID]
	if ok && equality.Semantic.DeepEqual(last.Status, status) {
		return false
	}
	k.pods[pod.UID] = Kept{
		UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Source: pod.Annotations[sourceAnnotation],
		Changed: k.clock.Now(), Status: status,
	}
	return true
}

// Get is the pod's last status, if there is one.
func (k *Keeper) Get(uid types.UID) (Kept, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	kept, ok := k.pods[uid]
	return kept, ok
}

// UIDs are the pods that have a status, in no order.
func (k *Keeper) UIDs() []types.UID {
	k.mu.RLock()
	defer k.mu.RUnlock()
	uids := make([]types.UID, 0, len(k.pods))
	for uid := range k.pods {
		uids = append(uids, uid)
	}
	return uids
}

// Delete forgets the pod.
func (k *Keeper) Delete(uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.pods, uid)
}
