package image

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/cri/pullprogress"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// Progress reads how far the running pulls are.
type Progress interface {
	// Read returns the progress of each of the pulls, in their order. Nil: it isn't known.
	Read(ctx context.Context, pulls []pullprogress.Pull) []*pullprogress.Progress
}

// pollPeriod is the pause between two readings of the pulls' progress. A pull that takes less isn't read at all.
const pollPeriod = time.Second

// shownPull returns the request as Pulls returns it.
func (a *ask) shownPull() Pull {
	shown := Pull{Image: a.ref.given, Asked: a.asked, Started: a.started()}
	if a.pull != nil {
		shown.Progress = a.pull.progress
	}
	return shown
}

// Message returns the pull as podexecd's readers get it.
func (p Pull) Message() *podexecv1.ImagePull {
	m := &podexecv1.ImagePull{Image: p.Image, AskedTime: timestamppb.New(p.Asked)}
	if !p.Started.IsZero() {
		m.StartedTime = timestamppb.New(p.Started)
	}
	if now := p.Progress; now != nil {
		m.Progress = &podexecv1.PullProgress{DoneBytes: now.DoneBytes, DoneLayers: int32(now.DoneLayers)} //nolint:gosec // Bounded.
		if !now.Partial {
			m.Progress.TotalBytes, m.Progress.TotalLayers = &now.TotalBytes, new(int32(now.TotalLayers)) //nolint:gosec // Bounded.
		}
	}
	return m
}

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
			p.cfg.Progressed(uid)
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
