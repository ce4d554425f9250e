package pleg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/observed"
)

// longestPause is the longest pause before the runtime is asked for its events again, and that after it had none.
const longestPause = time.Minute

// listen keeps the stream of events up until ctx ends. A stream that broke is begun again after a period, one that can't be begun
// after pauses that double.
func (p *PLEG) listen(ctx context.Context) {
	pause, said := p.cfg.Period, ""
	for {
		err := p.cfg.Runtime.Watch(ctx, p.hear)
		if ctx.Err() != nil {
			return
		}
		switch stood := p.deafen(); {
		case errors.Is(err, observed.ErrNoEvents):
			pause = longestPause
		case stood:
			pause, said = p.cfg.Period, ""
		default:
			pause = min(2*pause, longestPause)
		}
		// The same failure again and again is one message.
		if text := fmt.Sprint(err); text != said {
			said = text
			p.cfg.Logger.Info("no container events; pods are listed more often instead", "reason", text, "period", p.cfg.Period)
		}
		if !p.sleep(ctx, pause, nil) {
			return
		}
	}
}

// hear takes an event: what the runtime tells of a pod. Nil says that anything may have happened, and that there are events from now on.
func (p *PLEG) hear(told *observed.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if told == nil {
		if !p.listening {
			p.cfg.Logger.Info("the container runtime tells of events", "period", p.cfg.EventedPeriod)
		}
		p.listening = true
		poke(p.hurry)
		return
	}
	if a := p.acting[told.UID]; a != nil {
		a.told = append(a.told, told)
		return
	}
	p.judge(told)
}

// acting is a pod that somebody acts upon. PLEG.mu guards it.
type acting struct {
	// times is how many do.
	times int
	// told are the events of the pod since then, the oldest first.
	told []*observed.Pod
}

// Act has the events of a pod wait until done is called. Whoever does something to a pod may call it before: the runtime tells of each step,
// and the Refresh at the end shows them all. What that doesn't show has the pod taken, and read again, once done is called.
func (p *PLEG) Act(uid types.UID) (done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.acting[uid]
	if a == nil {
		a = &acting{}
		p.acting[uid] = a
	}
	a.times++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if a.times--; a.times > 0 {
			return
		}
		delete(p.acting, uid)
		for _, told := range a.told {
			p.judge(told)
		}
	}
}

// judge signs the pod of an event and has it taken, unless the last full reading shows all that the event tells. The caller holds mu.
func (p *PLEG) judge(told *observed.Pod) {
	if r := p.pods[told.UID]; r == nil || !shows(r.full, told) {
		p.tell(told.UID)
	}
}

// deafen notes that there are no events any more, and tells whether there were.
func (p *PLEG) deafen() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	stood := p.listening
	p.listening = false
	if stood {
		poke(p.hurry)
	}
	return stood
}
