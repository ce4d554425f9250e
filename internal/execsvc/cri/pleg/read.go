package pleg

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// record is the state of one pod. PLEG.mu guards it.
type record struct {
	// seen is the last reading, of a relist or in full. full is the last one in full; nil if there was none.
	seen, full *observed.Pod
	// changed is the number (PLEG.now) of the last sign: an event, a difference in a relist, the start of a Refresh.
	// read is the number of the start of the Refresh that full came from.
	changed, read int64
	// processes are the running processes by the last full reading, by the container's or sandbox's ID.
	processes map[string]*process
}

// current reports whether there was no sign since the last full reading began.
func (r *record) current() bool { return r.full != nil && r.read == r.changed }

// mark records that a pod may have changed. The caller holds mu.
func (p *PLEG) mark(uid types.UID) *record {
	r := p.pods[uid]
	if r == nil {
		r = &record{processes: map[string]*process{}}
		p.pods[uid] = r
	}
	p.now++
	r.changed = p.now
	return r
}

// Current returns the pod's present state in full. It makes no call if there was no sign since the last reading, nor if
// the pod has no record: no relist, event or Refresh.
func (p *PLEG) Current(ctx context.Context, uid types.UID) (*observed.Pod, error) {
	if pod := p.cached(uid); pod != nil {
		return pod, nil
	}
	return p.Refresh(ctx, uid)
}

// cached returns Current's answer if that needs no call, and else nil.
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
	if a := p.acting[uid]; a != nil && slices.ContainsFunc(a.events, func(reported *observed.Pod) bool { return !shows(pod, reported) }) {
		return nil
	}
	return pod
}

// Refresh reads one pod in full, now. A caller that changes a pod calls it afterwards, also if the change failed: the
// previous reading isn't current any more, even if this one fails.
func (p *PLEG) Refresh(ctx context.Context, uid types.UID) (*observed.Pod, error) {
	p.mu.Lock()
	r := p.mark(uid)
	began := r.changed
	p.mu.Unlock()
	start := p.cfg.Clock.Now()
	pod, err := p.cfg.Runtime.Status(ctx, uid)
	p.metrics.podDuration.Observe(p.cfg.Clock.Since(start).Seconds())
	if err != nil {
		// The change may show in a list, and shouldn't wait for the next regular one.
		poke(p.hurry)
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// If a later relist has found nothing of the pod, r isn't its record any more.
	if p.pods[uid] == r && r.read < began {
		r.seen, r.full, r.read = pod, pod, began
		p.follow(r)
	}
	return pod, nil
}

// Get returns the last full reading of one pod, current or not, or else that of a relist. It is nil if the runtime has
// nothing of the pod.
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

// GetFull returns the last full reading of one pod, current or not. It is nil if there was none, or the runtime has
// nothing of the pod.
func (p *PLEG) GetFull(uid types.UID) *observed.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.pods[uid]; r != nil && !isEmpty(r.seen) {
		return r.full
	}
	return nil
}

func isEmpty(pod *observed.Pod) bool {
	return pod == nil || len(pod.Sandboxes) == 0 && len(pod.Containers) == 0
}
