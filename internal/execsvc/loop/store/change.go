package store

import (
	"context"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/decide/resize"
	"github.com/podstream/podstream/internal/failpoint"
)

// Apply updates the desired pods and the cursor by the event. The ends are those of the pods that it removes. They are
// written in the same transaction, so that after a restart a pod that was removed and added again isn't mistaken for
// the running one. For a pod that is being ended already, only Removed and an earlier Deadline count. It never waits.
func (s *Store) Apply(e client.Event, ends ...End) {
	failpoint.Reached(failpoint.BeforeApply)
	defer failpoint.Reached(failpoint.AfterApply)
	s.change(func() {
		for _, end := range ends {
			s.applyEnd(end)
		}
		for _, c := range e.Ops {
			for _, pod := range c.Pods {
				s.applyPod(c.Op, pod)
			}
		}
		if e.Cursor != nil {
			s.held.cursor, s.applied = e.Cursor, true
		}
	})
}

func (s *Store) applyEnd(end End) {
	if before, ok := s.held.ends[end.UID]; ok {
		before.Removed = true
		if end.Deadline.Before(before.Deadline) {
			before.Deadline, before.Grace = end.Deadline, end.Grace
		}
		end = before
	}
	s.held.ends[end.UID] = end
	s.mark(ends, end.UID)
}

func (s *Store) applyPod(op client.Op, pod client.Pod) {
	switch {
	case op == client.Remove:
		// The pod may have moved to another source under its UID: it stays then.
		if s.held.pods[pod.UID].Source != pod.Source {
			return
		}
		delete(s.held.pods, pod.UID)
	case pod.Object == nil || pod.UID == "":
		// No podconfigd sends that; such a pod couldn't be restored.
		return
	default:
		s.held.pods[pod.UID] = client.Pod{
			UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Source: pod.Source,
			SpecDigest: pod.SpecDigest, StatusDigest: pod.StatusDigest, Object: pod.Object,
		}
	}
	s.mark(pods, pod.UID)
}

// SetStatus stores the pod's status, which must not be changed afterwards. It never waits.
func (s *Store) SetStatus(uid types.UID, status *v1.PodStatus, changed time.Time) {
	s.change(func() {
		before := s.held.statuses[uid]
		s.held.statuses[uid] = Status{Status: status, Changed: changed, Replaced: before.Replaced, Restart: before.Restart}
		s.mark(statuses, uid)
	})
}

// SetRemovals stores the times of the last removals of running pods in place of earlier ones. times must not be changed
// afterwards. It never waits: they are written at the latest with the next change, such as the removal itself.
func (s *Store) SetRemovals(times []time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held.removals = times
}

// SetReplaced stores the IDs of the pod's containers that are about to be stopped so that successors start, in place of
// earlier ones, and returns when they are on disk. ids must not be changed afterwards. It does nothing for a pod without
// a status. On an error the IDs are in memory only, until the store can be written. It needs Run.
func (s *Store) SetReplaced(ctx context.Context, uid types.UID, ids []string) error {
	s.change(func() {
		if st, ok := s.held.statuses[uid]; ok {
			st.Replaced = ids
			s.held.statuses[uid] = st
			s.mark(statuses, uid)
		}
	})
	return s.Flush(ctx)
}

// SetAllocation stores the pod's allocation, which must not be changed afterwards; nil deletes it. It never waits.
func (s *Store) SetAllocation(uid types.UID, allocation *resize.Allocation) {
	s.change(func() {
		if allocation == nil {
			drop(s, s.held.allocations, allocations, uid)
			return
		}
		s.held.allocations[uid] = *allocation
		s.mark(allocations, uid)
	})
}

// Drop deletes the status, end and allocation of a pod that is gone. It never waits.
func (s *Store) Drop(uid types.UID) {
	s.change(func() {
		drop(s, s.held.statuses, statuses, uid)
		drop(s, s.held.ends, ends, uid)
		drop(s, s.held.allocations, allocations, uid)
	})
}

// drop deletes the pod's record in a table. Its caller holds the lock.
func drop[V any](s *Store, values map[types.UID]V, t table, uid types.UID) {
	if _, ok := values[uid]; ok {
		delete(values, uid)
		s.mark(t, uid)
	}
}

// SetEnd stores the termination, and returns when it is on disk. It replaces an earlier one, but Removed stays set
// until Drop. On an error the termination is in memory only, until the store can be written. It needs Run.
func (s *Store) SetEnd(ctx context.Context, uid types.UID, end End) error {
	end.UID = uid
	s.change(func() {
		before := s.held.ends[uid]
		end.Removed, end.Stopping = end.Removed || before.Removed, before.Stopping
		s.held.ends[uid] = end
		s.mark(ends, uid)
	})
	return s.Flush(ctx)
}

// SetStopping stores when the grace period of a container began, after its SIGTERM. It does nothing for a pod without
// an end. It never waits.
func (s *Store) SetStopping(uid types.UID, container string, begun time.Time) {
	s.change(func() {
		end, ok := s.held.ends[uid]
		if !ok {
			return
		}
		// The State that was returned shares the old map.
		end.Stopping = maps.Clone(end.Stopping)
		if end.Stopping == nil {
			end.Stopping = map[string]time.Time{}
		}
		end.Stopping[container] = begun
		s.held.ends[uid] = end
		s.mark(ends, uid)
	})
}

// Flush returns when all earlier changes are on disk. While the store can't be written it returns the error at once.
// It needs Run.
func (s *Store) Flush(ctx context.Context) error {
	s.mu.Lock()
	next, failure := s.next, s.failure
	s.mu.Unlock()
	if failure != nil {
		return failure
	}
	s.rouse()
	select {
	case <-next.done:
		return next.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// change runs f under the lock, and wakes Run.
func (s *Store) change(f func()) {
	s.mu.Lock()
	f()
	s.mu.Unlock()
	s.rouse()
}

// mark records that the value at a place isn't on disk. Its caller holds the lock.
func (s *Store) mark(t table, uid types.UID) {
	if !s.whole {
		s.changed[place{t, uid}] = struct{}{}
	}
}

func (s *Store) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
