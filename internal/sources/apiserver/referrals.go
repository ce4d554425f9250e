package apiserver

import (
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources"
)

// referrals are the objects that new or changed pods refer to. Run passes them to RunObjects.
type referrals struct {
	signal chan struct{}

	mu   sync.Mutex
	keys map[sources.ObjectKey]bool
}

func newReferrals() *referrals {
	return &referrals{signal: make(chan struct{}, 1), keys: map[sources.ObjectKey]bool{}}
}

func (r *referrals) put(keys []sources.ObjectKey) {
	if len(keys) == 0 {
		return
	}
	r.mu.Lock()
	for _, key := range keys {
		r.keys[key] = true
	}
	r.mu.Unlock()
	select {
	case r.signal <- struct{}{}:
	default:
	}
}

func (r *referrals) take() map[sources.ObjectKey]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.keys
	r.keys = map[sources.ObjectKey]bool{}
	return taken
}

// newlyReferred returns the objects that those of the changed pods refer to that are new or have another spec.
func newlyReferred(before, after []*manifest.Origin, changed map[string]*v1.Pod) []sources.ObjectKey {
	var keys []sources.ObjectKey
	for name, pod := range changed {
		if is, was := podAt(after, name), podAt(before, name); is != nil && (was == nil || is.UID != was.UID || is.SpecDigest != was.SpecDigest) {
			keys = append(keys, manifest.References(pod)...)
		}
	}
	return keys
}

// podAt returns the pod of an origin; nil if there is none, or it can't be used.
func podAt(origins []*manifest.Origin, name string) *manifest.Pod {
	at, found := find(origins, name)
	if !found || len(origins[at].Pods) == 0 {
		return nil
	}
	return origins[at].Pods[0]
}
