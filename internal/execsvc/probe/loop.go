package probe

import (
	"context"
	"fmt"
	"time"

	"github.com/podstream/podstream/internal/execsvc/events"
	"github.com/podstream/podstream/internal/execsvc/handler"
	"github.com/podstream/podstream/internal/execsvc/observed"
)

// run is a probe under way.
type run struct {
	probe *probe
	began time.Time
	// cancel breaks it off; its answer no longer counts then.
	cancel context.CancelFunc
}

const (
	// slow is after what time a run gives up its slot, so that containers that don't answer keep no others from being asked.
	slow = time.Second
	// attempts is how often a container is asked that can't be.
	attempts = 3
	// forever is how long an empty queue is waited on.
	forever = time.Hour
)

// Run asks what is due until ctx ends, and returns when nothing is under way any more.
func (m *Manager) Run(ctx context.Context) {
	defer m.underWay.Wait()
	for ctx.Err() == nil {
		timer := m.cfg.Clock.NewTimer(m.turnDue(ctx))
		select {
		case <-ctx.Done():
		case <-m.woken:
		case <-timer.C():
		}
		timer.Stop()
	}
}

// turnDue lets every probe that is due have its turn, and returns when to look again.
func (m *Manager) turnDue(ctx context.Context) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.queue) > 0 {
		now := m.cfg.Clock.Now()
		next := m.queue[0]
		if wait := next.due.Sub(now); wait > 0 {
			return wait
		}
		if wait := m.room(now); wait > 0 {
			return wait
		}
		m.turn(ctx, next, now)
	}
	return forever
}

// room is how long to wait until one more may be under way. 0: it may.
func (m *Manager) room(now time.Time) time.Duration {
	if len(m.slots) < m.cfg.Parallel {
		return 0
	}
	wait := slow
	for r := range m.slots {
		if age := now.Sub(r.began); age < slow {
			wait = min(wait, slow-age)
		} else {
			delete(m.slots, r)
		}
	}
	if len(m.slots) < m.cfg.Parallel {
		return 0
	}
	return wait
}

// turn asks, or finds when to look again. Where there is nothing to ask, that is after a period: Set and Probes see a new container at once.
func (m *Manager) turn(ctx context.Context, p *probe, now time.Time) {
	has := m.look(p.container.pod)
	o := p.container.running(has)
	switch {
	case o == nil || p.waits():
		m.queue.set(p, now.Add(p.period()))
	case now.Before(p.notBefore):
		m.queue.set(p, p.notBefore)
	default:
		m.queue.remove(p)
		m.start(ctx, p, p.container.target(has, o, m.cfg.HostIPs), now)
	}
}

func (m *Manager) start(ctx context.Context, p *probe, target handler.Target, now time.Time) {
	if p.asked.IsZero() {
		p.asked = now
	}
	p.tries++
	ctx, cancel := context.WithCancel(ctx)
	r := &run{probe: p, began: now, cancel: cancel}
	p.run = r
	m.slots[r] = struct{}{}
	spec := p.spec
	m.underWay.Go(func() {
		defer cancel()
		var (
			outcome handler.Outcome
			output  string
			err     error
		)
		for range attempts {
			if outcome, output, err = m.cfg.Handlers.Probe(ctx, target, spec); err == nil || ctx.Err() != nil {
				break
			}
		}
		if report := m.done(ctx, r, outcome, output, err); report != nil {
			report()
		}
	})
}

// done takes the answer of a run. What it returns tells what there is to tell, and is called without the lock; nil: nothing.
func (m *Manager) done(ctx context.Context, r *run, outcome handler.Outcome, output string, err error) (report func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.wake()
	delete(m.slots, r)
	p := r.probe
	if ctx.Err() != nil {
		return nil
	}
	has := m.look(p.container.pod) // which breaks it off if there is a new container
	if ctx.Err() != nil {
		return nil
	}
	p.run = nil
	now := m.cfg.Clock.Now()
	next := later(now, r.began.Add(p.period()))
	if p.container.running(has) == nil {
		m.queue.set(p, next)
		return nil // It ended meanwhile: that it didn't answer says nothing.
	}
	m.metrics.asked(p, outcome, err, now.Sub(r.began))
	failed := err != nil || outcome == handler.Failure
	early := failed && p.early(now)
	if early {
		next = p.retry(now)
	}
	m.queue.set(p, next)
	if err == nil { // What couldn't be asked changes nothing, as in the kubelet.
		m.judge(p, outcome != handler.Failure, now)
	}
	if early {
		return nil
	}
	return m.report(p, outcome, output, err)
}

// judge lets the answer count.
func (m *Manager) judge(p *probe, success bool, now time.Time) {
	before := p.state.verdict
	p.state = p.state.after(success, p.spec)
	if p.state.verdict == before {
		return
	}
	c := p.container
	m.changed[c.pod.spec.UID] = struct{}{}
	signal(m.ready)
	m.cfg.Logger.Info("a container's probe changed its verdict", "pod", c.pod.spec.Namespace+"/"+c.pod.spec.Name,
		"uid", c.pod.spec.UID, "container", c.name, "id", c.id, "probe", p.state.kind.String(), "success", success)
	if p.state.kind == startup && p.state.verdict == observed.Success {
		for other := range c.all() {
			if other != p && other.run == nil && other.wanted() {
				m.queue.set(other, now)
			}
		}
	}
}

// report records the kubelet's events for an answer. Nil if there are none.
func (m *Manager) report(p *probe, outcome handler.Outcome, output string, err error) func() {
	reason, message := events.ContainerUnhealthy, ""
	switch {
	case err != nil:
		message = fmt.Sprintf("%s probe errored and resulted in unknown state: %v", p.state.kind, err)
	case outcome == handler.Failure:
		message = fmt.Sprintf("%s probe failed: %s", p.state.kind, output)
	case outcome == handler.Warning:
		reason, message = events.ContainerProbeWarned, fmt.Sprintf("%s probe warning: %s", p.state.kind, output)
	default:
		return nil
	}
	pod, container := p.container.pod.spec, p.container.name
	return func() { m.cfg.Events.Record(pod, container, events.Warning, reason, message) }
}
