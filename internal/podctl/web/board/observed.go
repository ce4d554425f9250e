package board

import (
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// ApplyObserved applies messages of WatchPodStatus that belong together. all is set if they are all existing pods.
func (b *Board) ApplyObserved(pods []*podexecv1.ObservedPod, removed []*podconfigv1.PodRef, all bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.cfg.Clock.Now()
	first := !b.have.Podexecd
	b.have.Podexecd = true
	gone := map[string]bool{}
	for _, ref := range removed {
		gone[ref.GetUid()] = true
	}
	if all {
		for uid := range b.observed {
			gone[uid] = true
		}
	}
	for _, pod := range pods {
		uid := pod.GetRef().GetUid()
		delete(gone, uid)
		if len(b.observed) < maxPods || b.observed[uid] != nil {
			b.observed[uid] = pod
			b.show(uid, now)
		}
	}
	for uid := range gone {
		delete(b.observed, uid)
		b.show(uid, now)
	}
	if first {
		// That podexecd doesn't have a pod means something from now on.
		for uid := range b.desired {
			b.show(uid, now)
		}
	}
}
