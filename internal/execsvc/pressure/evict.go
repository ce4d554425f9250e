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

// evict evicts one pod, the first in rank of those of which it is known what they use. If that is known of none, none has to go: what pods use
// was lost then, as while the runtime is down, and whoever went for it would be anybody. It returns the pod and its seconds; empty: none went.
func (m *Manager) evict(ctx context.Context, t Threshold, seen observations, dedicated bool) (evicted types.UID, grace int64) {
	pods := m.cfg.Pods()
	if len(pods) == 0 {
		return "", 0
	}
	measuring, cancel := context.WithTimeout(ctx, measureFor)
	defer cancel()
	used, err := m.measure(measuring, pods, t.signal, dedicated)
	if ctx.Err() != nil {
		return "", 0
	}
	name := kinds[t.signal].resource
	ranked := rank(pods, name, used)
	m.tellBlind(err, len(ranked) == 0)
	if len(ranked) == 0 {
		return "", 0
	}
	pod := ranked[0]
	grace = m.grace(t, pod)
	if !m.cfg.Evict(pod.UID, grace, status.Failure{
		Reason: events.Evicted, Message: message(pod, name, t.amount.of(seen[t.signal].capacity), seen[t.signal].available, used[pod.UID]), Disrupted: true,
	}) {
		return "", 0
	}
	m.cfg.Evictions.WithLabelValues(string(t.signal)).Inc()
	return pod.UID, grace
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

// tellBlind tells that it isn't known what pods use, when that begins.
func (m *Manager) tellBlind(err error, all bool) {
	switch {
	case err == nil && !all:
		m.blind = false
	case !m.blind:
		m.blind = true
		m.log.Warn("what pods use isn't all known; only those are evicted of which it is", "error", err)
	}
}
