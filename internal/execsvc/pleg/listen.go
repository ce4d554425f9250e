package pleg

import (
	"context"
	"errors"
	"fmt"
	"github.com/podstream/podstream/internal/execsvc/observed"
	"time"

	"k8s.io/apimachinery/pkg/types"
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

// hear takes an event of a pod. Without a UID it says that anything may have happened, and that there are events from now on.
func (p *PLEG) hear(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if uid == "" {
		if !p.listening {
			p.cfg.Logger.Info("the container runtime tells of events", "period", p.cfg.EventedPeriod)
		}
		p.listening = true
		poke(p.hurry)
		return
	}
	p.tell(uid)
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
