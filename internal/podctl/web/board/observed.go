package board

import (
	"google.golang.org/protobuf/proto"

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
		delete(gone, pod.GetRef().GetUid())
	}
	// The removed ones make room for the others.
	for uid := range gone {
		b.dropObserved(uid)
		b.show(uid, now)
	}
	for _, pod := range pods {
		uid := pod.GetRef().GetUid()
		b.keepObserved(uid, pod)
		b.show(uid, now)
	}
	if first {
		// That podexecd doesn't have a pod means something from now on.
		for uid := range b.desired {
			b.show(uid, now)
		}
	}
}

// maxObserved is how many bytes of observed pods are kept, unless the Config says otherwise. A node has a thousand pods.
const maxObserved = 256 << 20

// keepObserved replaces an observed pod. Without room for it, none is kept. The caller holds b.mu.
func (b *Board) keepObserved(uid string, pod *podexecv1.ObservedPod) {
	b.dropObserved(uid)
	size := proto.Size(pod)
	if len(b.observed) >= maxPods || b.observedBytes+size > b.cfg.ObservedBytes {
		return
	}
	b.observed[uid] = pod
	b.observedBytes += size
}

// dropObserved removes an observed pod, if it is there. The caller holds b.mu.
func (b *Board) dropObserved(uid string) {
	if old := b.observed[uid]; old != nil {
		b.observedBytes -= proto.Size(old)
		delete(b.observed, uid)
	}
}
