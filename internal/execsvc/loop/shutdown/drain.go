package shutdown

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/status"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// The reason and message of a pod that the shutdown ended, as in the kubelet. Message is also that of its condition
// DisruptionTarget.
const (
	reason  = "Terminated"
	Message = "Pod was terminated in response to imminent node shutdown."
)

const (
	// lookPeriod is the time between two checks whether pods have ended.
	lookPeriod = 100 * time.Millisecond
	// reportTime is how long the shutdown waits at most for the last pods and the API server once all periods are over.
	reportTime = 3 * time.Second
	// recordTime is how long the shutdown waits at most for the disk.
	recordTime = time.Second
	// maxNames is the number of pods that one line of the log names.
	maxNames = 20
)

// drain ends the pods, and closes the lock. The shutdown began at begun, and logind delays it for granted. If ctx ends,
// the shutdown was cancelled, or podexecd ends: then no further pod is ended.
func (m *Manager) drain(ctx context.Context, begun time.Time, granted time.Duration) {
	limit := begun.Add(granted)
	left := func() time.Duration { return limit.Sub(m.cfg.Clock.Now()) }
	m.log.Info("the machine shuts down; no pod is admitted, and the pods end", "at_most", min(left(), Total(m.cfg.Periods)))
	if !m.wait(ctx, left(), func() bool {
		select {
		case <-m.pods.Restored():
			return true
		default:
			return false
		}
	}) && ctx.Err() == nil {
		m.log.Warn("the container runtime hasn't listed the pods; they end as the init system ends them")
	}
	pods := m.pods.Unended()
	for _, g := range groups(within(m.cfg.Periods, left()), pods) {
		if ctx.Err() != nil {
			return
		}
		m.end(ctx, g)
	}
	// A container that was killed at the end of the last period needs a moment, and so do the last statuses.
	m.wait(ctx, min(reportTime, left()), func() bool { return len(m.unended(pods)) == 0 && m.cfg.Reported() })
	if ctx.Err() != nil {
		return
	}
	m.finish(ctx)
	if names := m.unended(pods); len(names) > 0 {
		m.log.Warn("the machine goes down before all pods have ended; the init system ends them", "pods", len(names), "first", cut(names))
	} else {
		m.log.Info("all pods have ended; the machine goes down", "pods", len(pods), "took", m.cfg.Clock.Since(begun).Round(time.Millisecond))
	}
	m.release()
}

func (m *Manager) finish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	m.record.finish(ctx)
}

// end ends a group's pods, and waits until they are gone, or the group's time is over.
func (m *Manager) end(ctx context.Context, g group) {
	m.log.Info("ending pods by their priority", "from_priority", g.Priority, "pods", len(g.pods), "at_most", g.Time)
	for _, pod := range g.pods {
		grace := g.grace(pod)
		m.log.Info("ending a pod, because the machine shuts down", "pod", podmeta.LogName(pod), "uid", pod.UID, "grace_seconds", grace)
		m.pods.End(pod.UID, grace, status.Failure{Reason: reason, Message: Message, Disrupted: true})
	}
	if !m.wait(ctx, g.Time, func() bool { return len(m.unended(g.pods)) == 0 }) && ctx.Err() == nil {
		names := m.unended(g.pods)
		m.log.Warn("the time for pods of this priority is over before all have ended; the shutdown goes on",
			"from_priority", g.Priority, "pods", len(names), "first", cut(names))
	}
}

// unended returns the names of the pods that aren't gone.
func (m *Manager) unended(pods []*v1.Pod) []string {
	var names []string
	for _, pod := range pods {
		if !m.pods.Gone(pod.UID) {
			names = append(names, podmeta.LogName(pod))
		}
	}
	return names
}

func cut(names []string) []string { return names[:min(len(names), maxNames)] }

// wait waits until done returns true, for at most that time, and reports whether it did.
func (m *Manager) wait(ctx context.Context, most time.Duration, done func() bool) bool {
	late := m.cfg.Clock.NewTimer(most)
	defer late.Stop()
	look := m.cfg.Clock.NewTicker(lookPeriod)
	defer look.Stop()
	for !done() {
		select {
		case <-look.C():
		case <-late.C():
			return done()
		case <-ctx.Done():
			return false
		}
	}
	return true
}
