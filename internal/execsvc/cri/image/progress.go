package image

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/cri/pullprogress"
)

// Progress reads how far the running pulls are.
type Progress interface {
	// Read returns the progress of each of the pulls, in their order. Nil: it isn't known.
	Read(ctx context.Context, pulls []pullprogress.Pull) []*pullprogress.Progress
}

// pollPeriod is the pause between two readings of the pulls' progress. A pull that takes less isn't read at all.
const pollPeriod = time.Second

// startPolling starts the goroutine that reads the progress, if it doesn't run. The caller holds the lock.
func (p *Puller) startPolling() {
	if p.cfg.Progress != nil && !p.polling {
		p.polling = true
		p.running.Go(p.poll)
	}
}

// poll reads the progress of the running pulls, until there are none.
func (p *Puller) poll() {
	for {
		timer := p.cfg.Clock.NewTimer(pollPeriod)
		select {
		case <-timer.C():
		case <-p.ctx.Done():
			timer.Stop()
			return
		}
		pulls, running := p.runningPulls()
		if len(pulls) == 0 {
			return
		}
		for _, uid := range p.setProgress(running, p.cfg.Progress.Read(p.ctx, pulls)) {
			p.wake(uid, p.cfg.Progressed)
		}
	}
}

// runningPulls returns the pulls that the runtime was called for. If there are none, the polling has ended.
func (p *Puller) runningPulls() (pulls []pullprogress.Pull, running []*pull) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.pulls {
		if !w.started.IsZero() {
			pulls = append(pulls, pullprogress.Pull{Repository: w.ref.repository, Name: w.ref.full, Started: w.started})
			running = append(running, w)
		}
	}
	p.polling = len(pulls) > 0
	return pulls, running
}

// setProgress sets the progress of pulls, and returns the pods whose pulls have another one than before.
func (p *Puller) setProgress(running []*pull, now []*pullprogress.Progress) (changed []types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, w := range running {
		// A reading that failed doesn't take back what was known.
		if now[i] == nil || w.progress != nil && *w.progress == *now[i] {
			continue
		}
		w.progress = now[i]
		for _, a := range w.asks {
			if !slices.Contains(changed, a.pod.UID) {
				changed = append(changed, a.pod.UID)
			}
		}
	}
	return changed
}
