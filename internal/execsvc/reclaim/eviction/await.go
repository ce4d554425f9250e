package eviction

import (
	"context"
	"math"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// termination is a pod that terminates for a threshold. Its usage counts until it is gone; without the wait another
// pod would be evicted for it.
type termination struct {
	uid types.UID
	// deadline is when the manager stops waiting for the pod.
	deadline time.Time
	// softResource is the resource of the soft threshold that the pod was evicted for: only soft thresholds of that
	// resource wait, possibly for the pod's whole grace period. It is empty after a hard threshold: all thresholds
	// then wait the few seconds that the pod has.
	softResource v1.ResourceName
}

// longestGrace is in seconds, about 68 years: a longer one overflows a time.Duration.
const longestGrace = math.MaxInt32

// awaitTermination records that a pod terminates for a threshold within grace seconds.
func (m *Manager) awaitTermination(uid types.UID, t Threshold, grace int64) {
	if m.cfg.Gone == nil {
		return
	}
	e := termination{uid: uid, deadline: time.Now().Add(time.Duration(min(grace, longestGrace))*time.Second + terminationSlack)}
	if t.gracePeriod > 0 {
		e.softResource = signals[t.signal].resource
	}
	m.terminating = append(m.terminating, e)
}

// withoutTermination returns those of the thresholds for which no pod terminates.
func (m *Manager) withoutTermination(act []int) []int {
	return slices.DeleteFunc(slices.Clone(act), func(i int) bool {
		t := m.cfg.Thresholds[i]
		return slices.ContainsFunc(m.terminating, func(e termination) bool {
			return e.softResource == "" || t.gracePeriod > 0 && signals[t.signal].resource == e.softResource
		})
	})
}

// wait waits until the next synchronization: for a period, until a terminating pod is gone or overdue, or until the
// kernel reports that memory crossed a threshold.
func (m *Manager) wait(ctx context.Context) {
	for waited := time.Duration(0); waited < period && ctx.Err() == nil; waited += terminationPeriod {
		if len(m.terminating) == 0 {
			m.pause(ctx, period-waited)
			return
		}
		notified := m.pause(ctx, terminationPeriod)
		if m.dropTerminated(time.Now()) || notified {
			return
		}
	}
}

// dropTerminated drops the pods that are gone or overdue, and reports whether there were any.
func (m *Manager) dropTerminated(now time.Time) bool {
	before := len(m.terminating)
	m.terminating = slices.DeleteFunc(m.terminating, func(e termination) bool {
		gone := m.cfg.Gone(e.uid)
		if gone {
			delete(m.overdue, e.uid)
		} else if !now.Before(e.deadline) {
			m.overdue[e.uid] = true
		}
		return gone || !now.Before(e.deadline)
	})
	return len(m.terminating) < before
}
