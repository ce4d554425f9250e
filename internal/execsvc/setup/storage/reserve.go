package storage

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
)

// User is a pod that uses a volume, or for which it is being set up or torn down.
type User struct {
	UID types.UID
	// Pod is its namespace and name; empty: not known.
	Pod string
}

// String returns the pod's name, or its UID.
func (u User) String() string { return cmp.Or(u.Pod, string(u.UID)) }

// UsedError is the error of Reserve for a volume that isn't free.
type UsedError struct {
	Volume string
	// Users are the pods. None: an operation on the volume isn't complete.
	Users []User
}

func (u *UsedError) Error() string {
	if len(u.Users) == 0 {
		return fmt.Sprintf("volume %s may still be mounted: an operation on it isn't complete", u.Volume)
	}
	return fmt.Sprintf("pod %s uses volume %s, or it is still being unmounted", u.Users[0], u.Volume)
}

// Ready reports whether the records have been read: before that, it isn't known what is mounted.
func (s *Storage) Ready() bool {
	select {
	case <-s.ready:
		return true
	default:
		return false
	}
}

// Users returns the pods that use the driver's volumes, by handle. Until Ready, some may be missing.
func (s *Storage) Users(driver string) map[string][]User {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string][]User{}
	for k, e := range s.entries {
		if k.Driver == driver {
			all[k.Handle] = e.state.users()
		}
	}
	return all
}

// Reserve keeps pods from a volume that none uses, until release is called. If that isn't certain, it is an error.
func (s *Storage) Reserve(k record.Key) (release func(), err error) {
	if !s.Ready() {
		return nil, fmt.Errorf("the records of volumes haven't been read yet, so it isn't known whether a pod uses %s: %w", k.Handle, ErrBusy)
	}
	if err := s.cfg.Records.Usable(k); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e := s.entries[k]; {
	case s.ended:
		return nil, ErrStopped
	case s.reserved[k]:
		return nil, fmt.Errorf("volume %s is being removed or replaced on request: %w", k.Handle, ErrBusy)
	case e != nil:
		return nil, &UsedError{Volume: k.Handle, Users: e.state.users()}
	}
	s.reserved[k] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.reserved, k)
	}, nil
}

// users returns all pods that want the volume, or have it, sorted by UID.
func (s *state) users() []User {
	var all []User
	for _, t := range s.wanted() {
		all = append(all, User{t.UID, s.wants[t].pod})
	}
	for _, p := range s.Publications {
		if !slices.ContainsFunc(all, func(u User) bool { return u.UID == p.UID }) {
			all = append(all, User{p.UID, p.Pod})
		}
	}
	slices.SortFunc(all, func(a, b User) int { return cmp.Compare(a.UID, b.UID) })
	return slices.CompactFunc(all, func(a, b User) bool { return a.UID == b.UID })
}
