package pleg

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/observed"
)

// firstPause is how long after a reading that doesn't show an end yet, though the kernel told of it, the pod is signed again. Each further
// pause is twice the last one.
const firstPause = 5 * time.Millisecond

// errNoPID is why what the runtime tells no process of isn't followed.
var errNoPID = errors.New("the container runtime doesn't tell its process")

// process is the first one of a container that a full reading showed running, or the one that keeps a ready sandbox. PLEG.mu guards it.
type process struct {
	// followed is set while its end would be told, ended since it has been.
	followed, ended bool
	// due is when the pod is signed again, as its last reading didn't show the end. Zero: there is no need to, or it is left to the relists.
	due time.Time
	// pause was the last one before due.
	pause time.Duration
}

// notice signs the pods of which a process ends, until ctx ends. The kernel knows of that before the runtime does: they are signed until a
// reading shows it.
func (p *PLEG) notice(ctx context.Context) {
	if p.cfg.Exits == nil {
		return
	}
	for ctx.Err() == nil {
		p.awaitEnds(ctx, p.signDue())
	}
}

// awaitEnds waits for ends, and takes them, but no longer than until a time that isn't zero, or until another time may be next.
func (p *PLEG) awaitEnds(ctx context.Context, until time.Time) {
	var due <-chan time.Time
	if !until.IsZero() {
		timer := p.cfg.Clock.NewTimer(until.Sub(p.cfg.Clock.Now()))
		defer timer.Stop()
		due = timer.C()
	}
	select {
	case <-p.cfg.Exits.Ready():
		p.ends(p.cfg.Exits.Take())
	case <-p.lagging:
	case <-due:
	case <-ctx.Done():
	}
}

// ends takes the ids of what has ended.
func (p *PLEG) ends(ids []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		for uid, r := range p.pods {
			if proc := r.processes[id]; proc != nil {
				proc.followed, proc.ended = false, true
				p.tell(uid)
			}
		}
	}
}

// signDue signs the pods for which it is time to, and returns when it is for the next one; zero if there is none.
func (p *PLEG) signDue() (next time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.cfg.Clock.Now()
	for uid, r := range p.pods {
		for _, proc := range r.processes {
			switch {
			case proc.due.IsZero():
			case !proc.due.After(now):
				proc.due = time.Time{}
				p.tell(uid)
			case next.IsZero() || proc.due.Before(next):
				next = proc.due
			}
		}
	}
	return next
}

// tell signs a pod and has it taken. The caller holds mu.
func (p *PLEG) tell(uid types.UID) {
	p.sign(uid)
	if !p.synced[uid] {
		p.synced[uid] = true
		p.events = append(p.events, Event{UID: uid, Type: PodSync})
	}
	// The first time Ready tells that the runtime has been listed.
	if p.listed {
		poke(p.ready)
	}
}

// follow follows what runs by the full reading that the record has got. The caller holds mu.
func (p *PLEG) follow(r *record) {
	if p.cfg.Exits == nil {
		return
	}
	p.forgetEnded(r, r.full)
	for _, s := range states(r.full) {
		if !mayRun(s.state) {
			continue
		}
		proc, known := r.processes[s.id]
		if !known {
			proc = &process{}
			r.processes[s.id] = proc
		}
		switch {
		case proc.followed:
		case !proc.ended:
			err := errNoPID
			if s.pid != 0 {
				err = p.cfg.Exits.Follow(s.id, s.pid)
			}
			proc.followed = err == nil
			if err != nil && !known {
				p.leaveToRelists(s.id, err)
			}
		case r.current() && proc.due.IsZero():
			p.late(s.id, proc)
		}
	}
}

// late has a pod signed again whose reading doesn't show the end of a process yet. The caller holds mu.
func (p *PLEG) late(id string, proc *process) {
	pause := max(2*proc.pause, firstPause)
	if pause > p.cfg.Period {
		p.leaveToRelists(id, errors.New("its process has ended, or is in another pid namespace, and the container runtime says that it runs"))
		return
	}
	proc.pause, proc.due = pause, p.cfg.Clock.Now().Add(pause)
	poke(p.lagging)
}

// leaveToRelists has the relists come each Period from now on, as something runs that can't be followed. The caller holds mu.
func (p *PLEG) leaveToRelists(id string, reason error) {
	poke(p.hurry)
	if !p.unfollowed {
		p.unfollowed = true
		p.cfg.Logger.Info("not every container's end can be noticed at once; pods are listed more often while such containers run",
			"container", id, "reason", reason, "period", p.cfg.Period)
	}
}

// forgetEnded follows no longer what doesn't run by that reading. The caller holds mu.
func (p *PLEG) forgetEnded(r *record, now *observed.Pod) {
	for id := range r.processes {
		if state, there := find(states(now), id); !there || !mayRun(state) {
			p.cfg.Exits.Forget(id)
			delete(r.processes, id)
		}
	}
}

// covered tells whether all that runs is followed, so that nothing can end unnoticed. The caller holds mu.
func (p *PLEG) covered() bool {
	if p.cfg.Exits == nil {
		return false
	}
	for _, r := range p.pods {
		for _, s := range states(r.seen) {
			if proc := r.processes[s.id]; mayRun(s.state) && (proc == nil || !proc.followed) {
				return false
			}
		}
	}
	return true
}

// mayRun tells whether what is in that state may be running.
func mayRun(s observed.State) bool { return s == observed.Running || s == observed.Unknown }
