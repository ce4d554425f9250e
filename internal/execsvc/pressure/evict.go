package pressure

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/events"
	"github.com/podstream/podstream/internal/execsvc/status"
)

// reclaim removes what nobody needs from the signal's disk. It is false if there is nothing that could be removed.
func (m *Manager) reclaim(ctx context.Context, signal Signal, dedicated bool) (tried bool) {
	if kinds[signal].condition != v1.NodeDiskPressure || !onDisk(signal, dedicated).layers {
		return false
	}
	var errs []error
	for _, remove := range []func(context.Context) error{m.cfg.DeadContainers, m.cfg.UnusedImages} {
		if remove != nil {
			tried = true
			errs = append(errs, remove(ctx))
		}
	}
	if err := errors.Join(errs...); ctx.Err() == nil {
		if err != nil && !m.stuck {
			m.log.Warn("what nobody needs can't all be removed from the node's disk", "error", err)
		}
		m.stuck = err != nil
	}
	return tried
}

// evict evicts one pod, the first in rank.
func (m *Manager) evict(ctx context.Context, t Threshold, seen observations, dedicated bool) (types.UID, bool) {
	pods := m.cfg.Pods()
	if len(pods) == 0 {
		return "", false
	}
	measuring, cancel := context.WithTimeout(ctx, measureFor)
	defer cancel()
	used, err := m.measure(measuring, pods, t.signal, dedicated)
	if ctx.Err() != nil {
		return "", false
	}
	if err != nil {
		m.log.Warn("what pods use isn't all known; one is evicted by what is known", "error", err)
	}
	name := kinds[t.signal].resource
	pod := rank(pods, name, used)[0]
	if !m.cfg.Evict(pod.UID, m.grace(t, pod), status.Failure{
		Reason: events.Evicted, Message: message(pod, name, t.amount.of(seen[t.signal].capacity), seen[t.signal].available, used[pod.UID]), Disrupted: true,
	}) {
		return "", false
	}
	m.cfg.Evictions.WithLabelValues(string(t.signal)).Inc()
	return pod.UID, true
}

// grace is how many seconds the pod has to end: one, unless there is time.
func (m *Manager) grace(t Threshold, pod *v1.Pod) int64 {
	if t.grace == 0 {
		return 1
	}
	grace := m.cfg.MaxGrace
	if own := criconfig.GracePeriod(pod); grace < 0 || own < grace {
		grace = own
	}
	return max(grace, 1)
}
