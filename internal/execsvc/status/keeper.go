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

// Config says who is told of statuses.
type Config struct {
	// Changed is called, without locks, after a pod's status has become another by Update. Nil: nobody is told.
	Changed func(types.UID)
	// Clock tells when a status changed. Nil means the real one.
	Clock clock.PassiveClock
}

// Keeper keeps the last status of each pod. It is safe for concurrent use.
type Keeper struct {
	cfg  Config
	mu   sync.RWMutex
	pods map[types.UID]Kept
}

// NewKeeper returns an empty Keeper.
func NewKeeper(cfg Config) *Keeper {
	if cfg.Changed == nil {
		cfg.Changed = func(types.UID) {}
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	return &Keeper{cfg: cfg, pods: map[types.UID]Kept{}}
}

// Update makes the pod's next status from the one before, nil if there is none, and tells whether they differ. What is returned is
// shared and must not be changed. One status is made after the other: generate runs under the Keeper's lock, so it should read what it
// goes by itself, never wait, and leave the Keeper alone.
func (k *Keeper) Update(pod *v1.Pod, generate func(previous *v1.PodStatus) v1.PodStatus) (now *v1.PodStatus, changed bool) {
	now, changed = k.update(pod, generate)
	if changed {
		k.cfg.Changed(pod.UID)
	}
	return now, changed
}

func (k *Keeper) update(pod *v1.Pod, generate func(previous *v1.PodStatus) v1.PodStatus) (now *v1.PodStatus, changed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before, known := k.pods[pod.UID]
	next := generate(before.Status)
	if known && equality.Semantic.DeepEqual(before.Status, &next) {
		k.pods[pod.UID] = kept(pod, before.Status, before.Changed)
		return before.Status, false
	}
	k.pods[pod.UID] = kept(pod, &next, k.cfg.Clock.Now())
	return &next, true
}

// Restore keeps a status that was made, and has changed last, in an earlier life of the agent. Nobody is told of it.
func (k *Keeper) Restore(pod *v1.Pod, status *v1.PodStatus, changed time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pods[pod.UID] = kept(pod, status, changed)
}

func kept(pod *v1.Pod, status *v1.PodStatus, changed time.Time) Kept {
	return Kept{
		UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Source: pod.Annotations[sourceAnnotation],
		Changed: changed, Status: status,
	}
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
