package status

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// Kept is a pod's last status.
type Kept struct {
	UID             types.UID
	Namespace, Name string
	// Source is the source that the pod came from.
	Source string
	// Changed is when the status last changed.
	Changed time.Time
	// Status is shared and must not be changed.
	Status *v1.PodStatus
}

// Config configures a Keeper.
type Config struct {
	// Changed is called, without locks, after Update has changed a pod's status. Nil: it isn't called.
	Changed func(types.UID)
	// Clock gives the time of a change. Nil means the real one.
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

// Update computes the pod's next status from the previous one, nil if there is none, and reports whether they differ.
// The returned status is shared and must not be changed. generate runs under the Keeper's lock, one call at a time: it
// reads its own input, never waits, and doesn't call the Keeper.
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

// Restore keeps a status, and the time of its change, from before a restart of the agent. Config.Changed isn't called.
func (k *Keeper) Restore(pod *v1.Pod, status *v1.PodStatus, changed time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pods[pod.UID] = kept(pod, status, changed)
}

func kept(pod *v1.Pod, status *v1.PodStatus, changed time.Time) Kept {
	return Kept{
		UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Source: podmeta.Source(pod),
		Changed: changed, Status: status,
	}
}

// Get returns the pod's last status, if there is one.
func (k *Keeper) Get(uid types.UID) (Kept, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	kept, ok := k.pods[uid]
	return kept, ok
}

// UIDs returns the pods that have a status, unordered.
func (k *Keeper) UIDs() []types.UID {
	k.mu.RLock()
	defer k.mu.RUnlock()
	uids := make([]types.UID, 0, len(k.pods))
	for uid := range k.pods {
		uids = append(uids, uid)
	}
	return uids
}

// Delete removes the pod.
func (k *Keeper) Delete(uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.pods, uid)
}
