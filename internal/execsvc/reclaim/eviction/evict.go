package eviction

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/decide/status"
	"github.com/podstream/podstream/internal/execsvc/machine/nodefs"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// reclaim removes exited containers and unused images, each if they are on the signal's disk. It returns false if there
// was nothing to try.
func (m *Manager) reclaim(ctx context.Context, signal Signal, disks layout) (tried bool) {
	if signals[signal].condition != v1.NodeDiskPressure {
		return false
	}
	on := disks.on(signal)
	var errs []error
	for _, r := range []struct {
		there  bool
		what   string
		remove func(context.Context) error
	}{{on.writableLayers, "exited containers", m.cfg.RemoveExitedContainers}, {on.images, "unused images", m.cfg.RemoveUnusedImages}} {
		if r.there && r.remove != nil {
			tried = true
			errs = append(errs, m.removeWithin(ctx, r.what, r.remove))
		}
	}
	if err := errors.Join(errs...); tried && ctx.Err() == nil {
		if err != nil && !m.reclaimFailed {
			m.log.Warn("can't remove all exited containers and unused images from the node's disk", "error", err)
		}
		m.reclaimFailed = err != nil
	}
	return tried
}

// removeWithin calls remove, and waits for it until reclaimTimeout: memory may run out meanwhile.
func (m *Manager) removeWithin(ctx context.Context, what string, remove func(context.Context) error) error {
	removing, cancel := context.WithTimeout(ctx, reclaimTimeout)
	defer cancel()
	_, err := nodefs.Look(ctx, m.removals, nodefs.Pod{UID: what}, what, func() (struct{}, error) { return struct{}{}, remove(removing) }, nil)
	return err
}

// evict evicts the first pod in rank among those whose usage is known. If no pod's usage is known, as while the
// runtime is down, it evicts none: the choice would be arbitrary. If the first pod terminates as fast by itself,
// evict waits for its end; it skips a pod that did not end in time before.
func (m *Manager) evict(ctx context.Context, t Threshold, seen observations, disks layout) {
	pods := m.cfg.Pods()
	if len(pods) == 0 {
		return
	}
	measuring, cancel := context.WithTimeout(ctx, measureTimeout)
	defer cancel()
	used, err := m.measure(measuring, pods, t.signal, disks)
	if ctx.Err() != nil {
		return
	}
	name := signals[t.signal].resource
	ranked := rank(pods, name, used)
	m.logUnknownUsage(err, len(ranked) == 0)
	m.pruneOverdue(pods)
	m.statsAge.WithLabelValues(string(t.signal)).Observe(time.Since(m.observedAt).Seconds())
	for _, pod := range ranked {
		grace := m.gracePeriod(t, pod)
		if m.cfg.Evict(pod.UID, grace, status.Failure{
			Reason: events.Evicted, Message: message(pod, name, t.value.of(seen[t.signal].capacity), seen[t.signal].available, used[pod.UID]), Disrupted: true,
		}) {
			m.cfg.Evictions.WithLabelValues(string(t.signal)).Inc()
		} else if m.overdue[pod.UID] {
			continue
		}
		m.awaitTermination(pod.UID, t, grace)
		return
	}
}

// pruneOverdue drops the pods that are gone.
func (m *Manager) pruneOverdue(pods []*v1.Pod) {
	maps.DeleteFunc(m.overdue, func(uid types.UID, _ bool) bool {
		return !slices.ContainsFunc(pods, func(p *v1.Pod) bool { return p.UID == uid })
	})
}

// gracePeriod returns the pod's seconds to terminate: 1 for a hard threshold.
func (m *Manager) gracePeriod(t Threshold, pod *v1.Pod) int64 {
	if t.gracePeriod == 0 {
		return 1
	}
	grace := m.cfg.MaxPodGracePeriod
	if own := podmeta.GracePeriod(pod); grace < 0 || own < grace {
		grace = own
	}
	return max(grace, 1)
}

// logUnknownUsage logs, once each time it starts, that the pods' usage is not fully known.
func (m *Manager) logUnknownUsage(err error, all bool) {
	switch {
	case err == nil && !all:
		m.usageUnknown = false
	case !m.usageUnknown:
		m.usageUnknown = true
		m.log.Warn("the usage of some pods is unknown; only pods with known usage are evicted", "error", err)
	}
}
