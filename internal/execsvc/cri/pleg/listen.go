package pleg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// longestPause is the longest pause before the stream of events is opened again, and the pause after the runtime had
// none.
const longestPause = time.Minute

// listen keeps the stream of events open until ctx ends. A stream that broke is opened again after a period, one that
// can't be opened after pauses that double.
func (p *PLEG) listen(ctx context.Context) {
	pauses, said := p.newPauses(), ""
	pauses.Step() // The first one follows a stream that was open.
	for {
		err := p.cfg.Runtime.Watch(ctx, p.receive)
		if ctx.Err() != nil {
			return
		}
		switch stood := p.eventsEnded(); {
		case errors.Is(err, observed.ErrNoEvents):
			pauses = wait.Backoff{Duration: longestPause}
		case stood:
			pauses, said = p.newPauses(), ""
		}
		// A repeated failure is logged once.
		if text := fmt.Sprint(err); text != said {
			said = text
			p.cfg.Logger.Info("no container events; pods are listed more often instead", "reason", text, "period", p.cfg.Period)
		}
		if !p.sleep(ctx, pauses.Step(), nil) {
			return
		}
	}
}

// newPauses returns the pauses after a stream that was open.
func (p *PLEG) newPauses() wait.Backoff {
	const doublings = 40 // the cap ends the growth before
	return wait.Backoff{Duration: p.cfg.Period, Factor: 2, Steps: doublings, Cap: longestPause}
}

// receive handles an event: the runtime's report of a pod. Nil means that any pod may have changed, and that events
// arrive from now on.
func (p *PLEG) receive(reported *observed.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if reported == nil {
		if !p.listening {
			p.cfg.Logger.Info("the container runtime streams events", "period", p.cfg.EventedPeriod)
		}
		p.listening = true
		poke(p.hurry)
		return
	}
	if a := p.acting[reported.UID]; a != nil {
		a.events = append(a.events, reported)
		return
	}
	p.judge(reported)
}

// acting is a pod that is being changed. PLEG.mu guards it.
type acting struct {
	// times is the number of concurrent changes.
	times int
	// events are those of the pod since then, the oldest first.
	events []*observed.Pod
}

// Act delays the events of a pod until done is called. A caller that changes a pod may call it before: the runtime
// sends an event for each step, and the Refresh at the end shows them all. Events that it doesn't show mark the pod
// once done is called.
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
		for _, reported := range a.events {
			p.judge(reported)
		}
	}
}

// judge marks the pod of an event and adds its event, unless the last full reading has all states of the event. The
// caller holds mu.
func (p *PLEG) judge(reported *observed.Pod) {
	if r := p.pods[reported.UID]; r == nil || !shows(r.full, reported) {
		p.report(reported.UID)
	}
}

// eventsEnded records that events no longer arrive, and reports whether they did.
func (p *PLEG) eventsEnded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	stood := p.listening
	p.listening = false
	if stood {
		poke(p.hurry)
	}
	return stood
}
