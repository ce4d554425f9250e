package pleg

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/observed"
)

// record is what is known of one pod. PLEG.mu guards it.
type record struct {
	// seen is the last reading, of a relist or in full. full is the last one in full; nil if there was none.
	seen, full *observed.Pod
	// changed is the number (PLEG.now) of the last sign that something happened to the pod: an event, a difference that a relist saw,
	// the beginning of a Refresh. read is that of the beginning of the Refresh that full came from.
	changed, read int64
	// processes are those of what runs by the last full reading, by the container's or sandbox's ID.
	processes map[string]*process
}

// current tells whether nothing has happened to the pod since the last full reading began.
func (r *record) current() bool { return r.full != nil && r.read == r.changed }

// sign notes that something happened to a pod. The caller holds mu.
func (p *PLEG) sign(uid types.UID) *record {
	r := p.pods[uid]
	if r == nil {
		r = &record{processes: map[string]*process{}}
		p.pods[uid] = r
	}
	p.now++
	r.changed = p.now
	return r
}

// Current is the pod in full as it is now. It costs no call if nothing has happened to the pod since it was read last, nor if there is
// nothing to read: no relist has seen the pod, no event told of it, and nobody had it refreshed.
func (p *PLEG) Current(ctx context.Context, uid types.UID) (*observed.Pod, error) {
	if pod := p.cached(uid); pod != nil {
		return pod, nil
	}
	return p.Refresh(ctx, uid)
}

// cached is Current's answer if that needs no call, and else nil.
func (p *PLEG) cached(uid types.UID) *observed.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	var pod *observed.Pod
	switch r := p.pods[uid]; {
	case r == nil && p.listed:
		pod = &observed.Pod{UID: uid, ReadAt: p.cfg.Clock.Now()}
	case r != nil && r.current():
		pod = r.full
	}
	if a := p.acting[uid]; a != nil && slices.ContainsFunc(a.told, func(told *observed.Pod) bool { return !shows(pod, told) }) {
		return nil
	}
	return pod
}

// Refresh reads one pod in full, now. Whoever does something to a pod calls it afterwards, also if that failed: what was read before
// isn't current any more, even if this reading fails.
func (p *PLEG) Refresh(ctx context.Context, uid types.UID) (*observed.Pod, error) {
	p.mu.Lock()
	r := p.sign(uid)
	began := r.changed
	p.mu.Unlock()
	pod, err := p.cfg.Runtime.Status(ctx, uid)
	if err != nil {
		// What happened to it may show in a list, and shouldn't wait for one that takes its time.
		poke(p.hurry)
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// If a relist that began later has found nothing of the pod, r isn't its record any more.
	if p.pods[uid] == r && r.read < began {
		r.seen, r.full, r.read = pod, pod, began
		p.follow(r)
	}
	return pod, nil
}

// Get is the last full reading of one pod, current or not, or what a relist saw if there was none. It is nil if the runtime has nothing
// of the pod.
func (p *PLEG) Get(uid types.UID) *observed.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.pods[uid]
	switch {
	case r == nil || isEmpty(r.seen):
		return nil
	case r.full == nil:
		return r.seen
	}
	return r.full
}

func isEmpty(pod *observed.Pod) bool {
	return pod == nil || len(pod.Sandboxes) == 0 && len(pod.Containers) == 0
}
