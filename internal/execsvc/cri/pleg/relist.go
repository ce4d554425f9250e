package pleg

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// relists relists until ctx ends, at least Period apart. While ends are reported it waits longer, unless a reading is
// requested.
func (p *PLEG) relists(ctx context.Context) {
	for alive := true; alive; {
		p.relist(ctx)
		alive = p.sleep(ctx, p.cfg.Period, nil)
		if alive && p.quiet() {
			alive = p.sleep(ctx, p.cfg.EventedPeriod-p.cfg.Period, p.hurry)
		}
	}
}

// quiet reports whether events or the kernel report enough that the next relist can wait.
func (p *PLEG) quiet() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lastErr == nil && (p.listening || p.covered())
}

func (p *PLEG) relist(ctx context.Context) {
	number := p.begin()
	start := p.cfg.Clock.Now()
	pods, err := p.cfg.Runtime.List(ctx)
	if ctx.Err() != nil {
		return
	}
	p.metrics.relisted(start, p.cfg.Clock.Now())
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		if p.lastErr == nil {
			p.cfg.Logger.Error("the container runtime can't be read; pods go on as they are until it answers", "error", err)
		}
		p.lastErr = err
		return
	}
	if p.lastErr != nil {
		p.cfg.Logger.Info("the container runtime answers again")
	}
	p.metrics.lastSeen.Set(float64(start.Unix()))
	first := !p.listed
	p.lastErr, p.listed, p.relisted = nil, true, start
	p.take(pods, number)
	if first || len(p.events) > 0 {
		poke(p.ready)
	}
}

// begin returns the number of the relist that starts now.
func (p *PLEG) begin() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now++
	return p.now
}

// take adds the events of a relist. It leaves out pods with a sign after the relist began: it may have read their
// previous state, and they are read again anyway. The caller holds mu.
func (p *PLEG) take(pods []*observed.Pod, number int64) {
	there := make(map[types.UID]bool, len(pods))
	for _, pod := range pods {
		there[pod.UID] = true
		var before *observed.Pod
		if r := p.pods[pod.UID]; r != nil {
			if r.changed > number {
				continue
			}
			before = r.seen
		}
		if events := Compare(before, pod); len(events) > 0 {
			p.events = append(p.events, events...)
			r := p.mark(pod.UID)
			r.seen = pod
			p.dropEnded(r, pod)
		}
	}
	for uid, r := range p.pods {
		if !there[uid] && r.changed < number {
			p.events = append(p.events, Compare(r.seen, nil)...)
			p.dropEnded(r, nil)
			delete(p.pods, uid)
		}
	}
}
