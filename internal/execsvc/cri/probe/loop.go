package probe

import (
	"context"
	"fmt"
	"time"

	"github.com/podstream/podstream/internal/execsvc/cri/handler"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// run is a running probe.
type run struct {
	probe *probe
	began time.Time
	// cancel cancels it; its answer then no longer counts.
	cancel context.CancelFunc
}

const (
	// slow is after what time a run releases its slot, so that containers that don't answer don't delay the probes of
	// others.
	slow = time.Second
	// attempts is how often a probe is tried whose request can't be sent.
	attempts = 3
	// forever is the wait for an empty queue.
	forever = time.Hour
)

// Run runs due probes until ctx ends, and returns when no probe is running any more.
func (m *Manager) Run(ctx context.Context) {
	defer m.underWay.Wait()
	for ctx.Err() == nil {
		timer := m.cfg.Clock.NewTimer(m.runDue(ctx))
		select {
		case <-ctx.Done():
		case <-m.woken:
		case <-timer.C():
		}
		timer.Stop()
	}
}

// runDue handles every due probe, and returns when the next one is due.
func (m *Manager) runDue(ctx context.Context) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.queue) > 0 {
		now := m.cfg.Clock.Now()
		next := m.queue[0]
		if wait := next.due.Sub(now); wait > 0 {
			return wait
		}
		if wait := m.untilFree(now); wait > 0 {
			return wait
		}
		m.runOrWait(ctx, next, now)
	}
	return forever
}

// untilFree returns how long to wait for a free slot. 0: there is one.
func (m *Manager) untilFree(now time.Time) time.Duration {
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

// runOrWait runs a probe, or schedules its next check. Without a running container that is after a period: Set and
// Probes detect a new container at once.
func (m *Manager) runOrWait(ctx context.Context, p *probe, now time.Time) {
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

// done handles the answer of a run. It returns a function that records the events, to be called without the lock; nil:
// there are none.
func (m *Manager) done(ctx context.Context, r *run, outcome handler.Outcome, output string, err error) (report func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.wake()
	delete(m.slots, r)
	p := r.probe
	if ctx.Err() != nil {
		return nil
	}
	has := m.look(p.container.pod) // which cancels it if there is a new container
	if ctx.Err() != nil {
		return nil
	}
	p.run = nil
	now := m.cfg.Clock.Now()
	next := later(now, r.began.Add(p.period()))
	if p.container.running(has) == nil {
		m.queue.set(p, next)
		return nil // It ended meanwhile: the missing answer means nothing.
	}
	m.metrics.asked(p, outcome, err, now.Sub(r.began))
	failed := err != nil || outcome == handler.Failure
	early := failed && p.early(now)
	if early {
		next = p.retry(now)
	}
	m.queue.set(p, next)
	if err == nil { // A probe that couldn't run changes nothing, as in the kubelet.
		m.judge(p, outcome != handler.Failure, now)
	}
	if early {
		return nil
	}
	return m.report(p, outcome, output, err)
}

// judge updates the verdict by the answer.
func (m *Manager) judge(p *probe, success bool, now time.Time) {
	before := p.state.verdict
	p.state = p.state.after(success, p.spec)
	if p.state.verdict == before {
		return
	}
	c := p.container
	m.changed[c.pod.spec.UID] = struct{}{}
	signal(m.ready)
	m.cfg.Logger.Info("a container's probe changed its verdict", "pod", podmeta.LogName(c.pod.spec),
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
