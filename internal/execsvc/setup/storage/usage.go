package storage

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
)

// Mounted is a volume that is published for a pod.
type Mounted struct {
	record.Key
	// UID is the pod's, Plugin and Name are the volume's.
	record.Target
	// Volumes are the names of the pod's volumes that refer to it, sorted.
	Volumes []string
}

// Mounted returns the volumes that pods can use now, in no order. One that is being torn down isn't among them.
func (s *Storage) Mounted() []Mounted {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Mounted, 0, len(s.targets))
	for t, e := range s.targets {
		if s.isUsable(t) {
			all = append(all, Mounted{Key: e.state.Key, Target: t, Volumes: slices.Clone(e.state.Publication(t).Volumes)})
		}
	}
	return all
}

// published returns the pod's volume, if it is published now.
func (s *Storage) published(uid types.UID, name string) (*entry, Publishing, Backend, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.names[podVolume{uid, name}]
	if !ok || !isDone(s.targets[t].state.Publication(t)) {
		return nil, Publishing{}, nil, fmt.Errorf("volume %q isn't set up", name)
	}
	e := s.targets[t]
	b := s.cfg.Backends[e.state.Backend]
	if b == nil {
		return nil, Publishing{}, nil, fmt.Errorf("this podexecd has no backend %q", e.state.Backend)
	}
	st := e.state.clone()
	return e, publishing(&st, st.Publication(t)), b, nil
}

// Stats returns the usage of a pod's volume. name is the name in the pod's spec.
func (s *Storage) Stats(ctx context.Context, uid types.UID, name string) (Stats, error) {
	_, p, b, err := s.published(uid, name)
	if err != nil {
		return Stats{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	return b.Stats(ctx, p)
}
