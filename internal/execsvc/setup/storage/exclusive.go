package storage

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/setup/volume"
)

// others returns the volumes that the pod needs besides v and doesn't have yet, if pods may not share them. A pod takes a volume only
// while all of these are free for it. So of the pods that need each other's volumes the last one takes none: two pods that need the same
// two volumes can't each have one, and wait for the other for ever.
func (s *Storage) others(ctx context.Context, v *volume.Volume, res *Volume) ([]Volume, error) {
	// The claims of a static pod may be shared by its own source, and not by that of another pod. Those of an API pod are used by one pod
	// by the scheduler already, and each would be read from the API server for each other one.
	if (!res.Exclusive || res.OncePod) && !podmeta.IsStatic(v.Pod) || s.has(podVolume{v.UID, v.Spec.Name}) {
		return nil, nil
	}
	var all []Volume
	for i := range v.Pod.Spec.Volumes {
		spec := &v.Pod.Spec.Volumes[i]
		if spec.Name == v.Spec.Name || !s.Takes(spec) || !needs(v.Pod, spec.Name) || s.has(podVolume{v.UID, spec.Name}) {
			continue
		}
		other := *v
		other.Spec = spec
		res, err := s.resolve(ctx, &other)
		if err != nil {
			return nil, fmt.Errorf("the pod takes no volume before it can have all: volume %q: %w", spec.Name, err)
		}
		all = append(all, res)
	}
	return all, nil
}

// has reports whether the pod's volume is its own already, so that no other pod gets it exclusively.
func (s *Storage) has(of podVolume) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.names[of]
	return ok && s.targets[t].state.kept(t)
}

// needs reports whether the pod doesn't start without the volume. One that only ephemeral containers use keeps no pod waiting.
func needs(pod *v1.Pod, name string) bool {
	uses := func(c v1.Container) bool { return criconfig.UsesVolume(&c, name) }
	return slices.ContainsFunc(pod.Spec.InitContainers, uses) || slices.ContainsFunc(pod.Spec.Containers, uses)
}

// inUse returns the error of a volume, or of another one that the pod needs, which a pod has that doesn't share it. mu is held.
func (s *Storage) inUse(v *volume.Volume, res *Volume, others []Volume) error {
	for _, of := range append([]Volume{*res}, others...) {
		e := s.entries[of.Key]
		if e == nil || !of.Exclusive && !e.state.exclusive(v.UID) {
			continue
		}
		if user := e.state.user(v.UID); user != "" {
			err := &InUseError{Volume: of.Handle, User: user, Pod: podName(v), Shares: !of.Exclusive, OncePod: of.OncePod}
			if of.Device {
				return &volume.OperationError{Operation: "MapVolume.SetUpDevice", Volume: of.Name, Err: err}
			}
			return err
		}
	}
	return nil
}
