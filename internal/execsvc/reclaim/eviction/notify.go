package eviction

import (
	"context"
	"path/filepath"
	"time"

	"github.com/podstream/podstream/internal/execsvc/machine/memcg"
)

// notifyGap is the least time between an observation and the next one for a report of the kernel: a process can cross a
// threshold as often as it likes.
const notifyGap = time.Second

// Notifier reports when the memory of cgroups crosses thresholds.
type Notifier interface {
	// Arm replaces the thresholds. With an error it has armed those that it can.
	Arm(all []memcg.Threshold) error
	// Ready receives a value after a crossing.
	Ready() <-chan struct{}
}

// pause waits for d, and reports whether the kernel ended the wait. It disregards the kernel's reports until notifyGap
// after the last observation.
func (m *Manager) pause(ctx context.Context, d time.Duration) (notified bool) {
	timer, gap := time.NewTimer(d), time.NewTimer(time.Until(m.observedAt.Add(notifyGap)))
	defer timer.Stop()
	defer gap.Stop()
	var ready <-chan struct{}
	for {
		select {
		case <-gap.C:
			if m.cfg.Notifier != nil {
				ready = m.cfg.Notifier.Ready()
			}
		case <-ready:
			m.log.Debug("the kernel reports that memory crossed an eviction threshold")
			return true
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// arm sets the kernel's thresholds to the usage at which the signals would meet theirs. As the usage of file caches
// changes, so does that; arm is called after each observation. It logs an error once, not at each call.
func (m *Manager) arm(seen observations) {
	if m.cfg.Notifier == nil {
		return
	}
	all, err := m.reader.notifications(m.cfg.Thresholds, seen)
	if err == nil {
		err = m.cfg.Notifier.Arm(all)
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != m.armError && text != "" {
		m.log.Warn("the kernel won't report that memory is short; it is observed every ten seconds only", "error", err)
	}
	m.armError = text
}

// notifications returns the thresholds of cgroups for those of memory: of the machine's root cgroup, and of the cgroup
// of all pods.
func (r *reader) notifications(thresholds []Threshold, seen observations) ([]memcg.Threshold, error) {
	var all []memcg.Threshold
	for _, t := range thresholds {
		dir := cgroupV1
		switch t.signal {
		case MemoryAvailable:
		case AllocatableMemoryAvailable:
			dir = filepath.Join(dir, r.podsCgroup)
		default:
			continue
		}
		now, known := seen[t.signal]
		if !known {
			continue
		}
		used, err := r.number(filepath.Join(dir, usageV1))
		if err != nil {
			return nil, err
		}
		least := t.value.of(now.capacity)
		if at := usageAt(used, now.available.Value(), least.Value()); at > 0 {
			all = append(all, memcg.Threshold{Dir: r.path(dir), Bytes: at})
		}
	}
	return all, nil
}

// usageAt returns the usage at which so little will be available, if all else stays: the more is used, the less is
// available.
func usageAt(used, available, least int64) int64 { return used + available - least }
