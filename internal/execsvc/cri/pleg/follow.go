package pleg

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// firstPause is the pause before a pod is marked again if its reading doesn't show an end that the kernel has reported.
// Each further pause is twice the last one.
const firstPause = 5 * time.Millisecond

// errNoPID is why a process whose PID the runtime doesn't report isn't followed.
var errNoPID = errors.New("the container runtime doesn't report its process ID")

// process is the first process of a container that a full reading showed running, or the one that keeps a ready
// sandbox. PLEG.mu guards it.
type process struct {
	// followed is set while Exits follows it, ended once Exits has reported its end.
	followed, ended bool
	// due is when the pod is marked again, because its last reading didn't show the end. Zero: there is no need to, or
	// it is left to the relists.
	due time.Time
	// pause was the last one before due.
	pause time.Duration
}

// watchEnds marks the pods whose processes end, until ctx ends. The kernel reports an end before the runtime does: the
// pods are marked until a reading shows it.
func (p *PLEG) watchEnds(ctx context.Context) {
	if p.cfg.Exits == nil {
		return
	}
	for ctx.Err() == nil {
		p.awaitEnds(ctx, p.markDue())
	}
}

// awaitEnds waits for ends, and takes them. It returns at a time that isn't zero, or when that time may change.
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

// ends handles the IDs of the processes that have ended.
func (p *PLEG) ends(ids []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		for uid, r := range p.pods {
			if proc := r.processes[id]; proc != nil {
				proc.followed, proc.ended = false, true
				p.report(uid)
			}
		}
	}
}

// markDue marks the pods that are due, and returns the next due time; zero if there is none.
func (p *PLEG) markDue() (next time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.cfg.Clock.Now()
	for uid, r := range p.pods {
		for _, proc := range r.processes {
			switch {
			case proc.due.IsZero():
			case !proc.due.After(now):
				proc.due = time.Time{}
				p.report(uid)
			case next.IsZero() || proc.due.Before(next):
				next = proc.due
			}
		}
	}
	return next
}

// report marks a pod and adds its event. The caller holds mu.
func (p *PLEG) report(uid types.UID) {
	p.mark(uid)
	if !p.synced[uid] {
		p.synced[uid] = true
		p.events = append(p.events, Event{UID: uid, Type: PodSync})
	}
	// The first value of Ready means that the runtime has been listed.
	if p.listed {
		poke(p.ready)
	}
}

// follow follows the running processes of the record's full reading. The caller holds mu.
func (p *PLEG) follow(r *record) {
	if p.cfg.Exits == nil {
		return
	}
	p.dropEnded(r, r.full)
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

// late schedules the next mark of a pod whose reading doesn't show the end of a process yet. The caller holds mu.
func (p *PLEG) late(id string, proc *process) {
	pause := max(2*proc.pause, firstPause)
	if pause > p.cfg.Period {
		p.leaveToRelists(id, errors.New("its process has ended, or is in another pid namespace, and the container runtime says that it runs"))
		return
	}
	proc.pause, proc.due = pause, p.cfg.Clock.Now().Add(pause)
	poke(p.lagging)
}

// leaveToRelists makes relists run each Period from now on, because a running process can't be followed. The caller
// holds mu.
func (p *PLEG) leaveToRelists(id string, reason error) {
	poke(p.hurry)
	if !p.unfollowed {
		p.unfollowed = true
		p.cfg.Logger.Info("not every container's end can be noticed at once; pods are listed more often while such containers run",
			"container", id, "reason", reason, "period", p.cfg.Period)
	}
}

// dropEnded stops following processes that don't run by that reading. The caller holds mu.
func (p *PLEG) dropEnded(r *record, now *observed.Pod) {
	for id := range r.processes {
		if state, there := find(states(now), id); !there || !mayRun(state) {
			p.cfg.Exits.Unfollow(id)
			delete(r.processes, id)
		}
	}
}

// covered reports whether all running processes are followed, so that no end is missed. The caller holds mu.
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

// mayRun reports whether a container in that state may be running.
func mayRun(s observed.State) bool { return s == observed.Running || s == observed.Unknown }
