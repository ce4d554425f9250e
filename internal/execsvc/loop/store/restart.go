package store

import (
	"context"
	"errors"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/decide/actions"
)

// ErrNoStatus is returned by SetRestart for a pod without a status: none of its containers has started.
var ErrNoStatus = errors.New("the store has no status of the pod")

// Restart is an operator's request to restart containers of a pod. A value that was passed in or returned must not be
// changed.
type Restart struct {
	// Containers are the containers to replace.
	Containers actions.Requested
	// Stopping is as in End, for containers that are being stopped. SetRestartStopping sets it.
	Stopping map[string]time.Time
}

// SetRestart stores the request in place of an earlier one, with the earlier one's Stopping of its containers, and returns
// when it is on disk. On an error the earlier one is in memory again, and is written as soon as the store can be. It needs Run.
func (s *Store) SetRestart(ctx context.Context, uid types.UID, r Restart) error {
	var before, now *Restart
	known := false
	s.change(func() {
		var st Status
		if st, known = s.held.statuses[uid]; !known {
			return
		}
		before, now = st.Restart, &Restart{Containers: r.Containers, Stopping: maps.Clone(r.Stopping)}
		if before != nil {
			now.Stopping = now.ofContainers(before.Stopping)
		}
		s.setRestart(uid, st, now)
	})
	if !known {
		return ErrNoStatus
	}
	err := s.Flush(ctx)
	if err != nil {
		s.change(func() {
			if st, ok := s.held.statuses[uid]; ok && st.Restart == now {
				s.setRestart(uid, st, before)
			}
		})
	}
	return err
}

// DropRestart deletes the pod's request. It never waits.
func (s *Store) DropRestart(uid types.UID) {
	s.change(func() {
		if st, ok := s.held.statuses[uid]; ok && st.Restart != nil {
			s.setRestart(uid, st, nil)
		}
	})
}

// SetRestartStopping stores when the grace period of a container began, after its SIGTERM. It does nothing for a container
// whose restart isn't requested: such a one may end any number of times while a request of its pod is pending. It never
// waits.
func (s *Store) SetRestartStopping(uid types.UID, container string, begun time.Time) {
	s.change(func() {
		st, ok := s.held.statuses[uid]
		if !ok || st.Restart == nil || !st.Restart.replaces(container) {
			return
		}
		// The earlier value is shared.
		r := &Restart{Containers: st.Restart.Containers, Stopping: maps.Clone(st.Restart.Stopping)}
		if r.Stopping == nil {
			r.Stopping = map[string]time.Time{}
		}
		r.Stopping[container] = begun
		s.setRestart(uid, st, r)
	})
}

// replaces reports whether the container with the ID is to be replaced.
func (r *Restart) replaces(id string) bool {
	for _, replaced := range r.Containers {
		if replaced == id {
			return true
		}
	}
	return false
}

// ofContainers returns the part of stopping that is of containers to replace: one that has its successor needs none.
func (r *Restart) ofContainers(stopping map[string]time.Time) map[string]time.Time {
	var out map[string]time.Time
	for _, id := range r.Containers {
		if begun, ok := stopping[id]; ok {
			if out == nil {
				out = map[string]time.Time{}
			}
			out[id] = begun
		}
	}
	return out
}

// setRestart replaces the request in the pod's status. Its caller holds the lock.
func (s *Store) setRestart(uid types.UID, st Status, r *Restart) {
	st.Restart = r
	s.held.statuses[uid] = st
	s.mark(statuses, uid)
}

// restartRecord is the part of a statusRecord.
type restartRecord struct {
	Containers actions.Requested `json:"containers"`
	Reported   map[string]int64  `json:"told,omitempty"`
}

// record returns the record of r; nil for none.
func (r *Restart) record() *restartRecord {
	if r == nil {
		return nil
	}
	return &restartRecord{Containers: r.Containers, Reported: millis(r.Stopping)}
}

// restart is the reverse of record.
func (r *restartRecord) restart() *Restart {
	if r == nil {
		return nil
	}
	return &Restart{Containers: r.Containers, Stopping: times(r.Reported)}
}

// millis returns the times in milliseconds, nil for none; times is the reverse.
func millis(at map[string]time.Time) map[string]int64 {
	var out map[string]int64
	for id, t := range at {
		if out == nil {
			out = map[string]int64{}
		}
		out[id] = t.UnixMilli()
	}
	return out
}

func times(at map[string]int64) map[string]time.Time {
	var out map[string]time.Time
	for id, t := range at {
		if out == nil {
			out = map[string]time.Time{}
		}
		out[id] = time.UnixMilli(t)
	}
	return out
}
