package store

import (
	"context"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/resize"
	"github.com/podstream/podstream/internal/failpoint"
)

// Apply has the desired pods and the cursor follow the event. The ends are those of pods that it removes: with them on disk at the same
// moment, no restart takes a pod that went and came back for the one that runs. Of one that is being ended already they say
// no more than that it is removed, and perhaps an earlier deadline. It never waits.
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
		// A pod that has passed to another source under its UID isn't the one that goes.
		if s.held.pods[pod.UID].Source != pod.Source {
			return
		}
		delete(s.held.pods, pod.UID)
	case pod.Object == nil || pod.UID == "":
		// No podconfigd sends that; nothing could be done with it after a restart.
		return
	default:
		s.held.pods[pod.UID] = client.Pod{
			UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Source: pod.Source,
			SpecDigest: pod.SpecDigest, StatusDigest: pod.StatusDigest, Object: pod.Object,
		}
	}
	s.mark(pods, pod.UID)
}

// SetStatus keeps the pod's status, which must not be changed afterwards. It never waits.
func (s *Store) SetStatus(uid types.UID, status *v1.PodStatus, changed time.Time) {
	s.change(func() {
		s.held.statuses[uid] = Status{Status: status, Changed: changed}
		s.mark(statuses, uid)
	})
}

// SetAllocation keeps what the pod is allocated, which must not be changed afterwards; nil drops it. It never waits.
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

// Forget drops the pod's status, its end and its allocation: nothing is left of it. It never waits.
func (s *Store) Forget(uid types.UID) {
	s.change(func() {
		drop(s, s.held.statuses, statuses, uid)
		drop(s, s.held.ends, ends, uid)
		drop(s, s.held.allocations, allocations, uid)
	})
}

// drop takes what there is of the pod out of a table. Its caller holds the lock.
func drop[V any](s *Store, values map[types.UID]V, t table, uid types.UID) {
	if _, ok := values[uid]; ok {
		delete(values, uid)
		s.mark(t, uid)
	}
}

// SetEnd keeps the termination, and returns when it is on disk; of several for one pod the last one counts, but one that was removed stays
// so until Forget. On an error it is kept in memory, and written when that can be done. It needs Run.
func (s *Store) SetEnd(ctx context.Context, uid types.UID, end End) error {
	end.UID = uid
	s.change(func() {
		before := s.held.ends[uid]
		end.Removed, end.Told = end.Removed || before.Removed, before.Told
		s.held.ends[uid] = end
		s.mark(ends, uid)
	})
	return s.Flush(ctx)
}

// SetTold notes when the end of a container began that has had its SIGTERM. A pod that isn't being ended is left as it is. It never waits.
func (s *Store) SetTold(uid types.UID, container string, begun time.Time) {
	s.change(func() {
		end, ok := s.held.ends[uid]
		if !ok {
			return
		}
		// Whoever reads the state has the map that there was.
		end.Told = maps.Clone(end.Told)
		if end.Told == nil {
			end.Told = map[string]time.Time{}
		}
		end.Told[container] = begun
		s.held.ends[uid] = end
		s.mark(ends, uid)
	})
}

// Flush returns when all that was given before is on disk. While the store can't be written it returns why, at once. It needs Run.
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

// change runs f under the lock, and has what it changes written.
func (s *Store) change(f func()) {
	s.mu.Lock()
	f()
	s.mu.Unlock()
	s.rouse()
}

// mark notes that what is at a place isn't on disk. Its caller holds the lock.
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
