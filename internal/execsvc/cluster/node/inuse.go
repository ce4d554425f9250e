package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
)

// InUse are the volumes that the Node's status lists in volumesInUse: the attach-detach controller detaches none of them
// while the node is healthy. It is safe for concurrent use.
type InUse struct {
	mu sync.Mutex
	// restored is set once the volumes of before the restart are known. The status keeps its list until then.
	restored bool
	// adopting is set while the names in the Node's status must still be added to volumes: some volumes of before the restart
	// aren't known.
	adopting bool
	// volumes are those that are marked, with whether the API server has them.
	volumes map[v1.UniqueVolumeName]bool
	// leaving are those that were dropped, while the API server may have them.
	leaving map[v1.UniqueVolumeName]bool
	// reported is closed, and replaced, after each report.
	reported chan struct{}
	// wake has the status posted soon.
	wake func()
}

// NewInUse returns an InUse that leaves the Node's list as it is until Restore or RestoreSome is called.
func NewInUse() *InUse {
	return &InUse{
		volumes: map[v1.UniqueVolumeName]bool{}, leaving: map[v1.UniqueVolumeName]bool{}, reported: make(chan struct{}), wake: func() {},
	}
}

func (u *InUse) setWake(wake func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.wake = wake
}

// Restore sets the volumes that are in use since before a restart. It is called once, when all of them are known: the
// status lists no others from then on.
func (u *InUse) Restore(names ...v1.UniqueVolumeName) { u.restore(names, false) }

// RestoreSome is called in place of Restore when other volumes may be in use too, which aren't known. The names that the
// Node's status has then stay as well, until Drop is called for them.
func (u *InUse) RestoreSome(names ...v1.UniqueVolumeName) { u.restore(names, true) }

func (u *InUse) restore(names []v1.UniqueVolumeName, some bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.restored, u.adopting = true, some
	for _, name := range names {
		if _, marked := u.volumes[name]; !marked {
			u.volumes[name] = false
		}
	}
	u.wake()
}

// Mark adds a volume, and returns when the API server has it. If ctx ends before, it returns an error, and the volume
// stays marked.
func (u *InUse) Mark(ctx context.Context, name v1.UniqueVolumeName) error {
	for {
		confirmed, reported := u.mark(name)
		if confirmed {
			return nil
		}
		select {
		case <-reported:
		case <-ctx.Done():
			return fmt.Errorf("the API server doesn't list the volume in the Node's volumesInUse yet: %w", ctx.Err())
		}
	}
}

func (u *InUse) mark(name v1.UniqueVolumeName) (confirmed bool, reported <-chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	confirmed, marked := u.volumes[name]
	if !marked {
		u.volumes[name] = false
		delete(u.leaving, name)
		u.wake()
	}
	return confirmed, u.reported
}

// Drop removes a volume, and returns when the API server doesn't have it any more. If ctx ends before, it returns an error,
// and the volume stays removed. The volume must be unmounted: the controller may detach it from now on.
func (u *InUse) Drop(ctx context.Context, name v1.UniqueVolumeName) error {
	u.mu.Lock()
	if _, marked := u.volumes[name]; marked || u.adopting {
		delete(u.volumes, name)
		u.leaving[name] = true
		u.wake()
	}
	u.mu.Unlock()
	for {
		u.mu.Lock()
		leaving, reported := u.leaving[name], u.reported
		u.mu.Unlock()
		if !leaving {
			return nil
		}
		select {
		case <-reported:
		case <-ctx.Done():
			return fmt.Errorf("the API server still lists the volume in the Node's volumesInUse: %w", ctx.Err())
		}
	}
}

// list returns the volumes in order; nil if they aren't known yet. The argument is the list in the Node's status.
func (u *InUse) list(listed []v1.UniqueVolumeName) []v1.UniqueVolumeName {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.restored {
		return nil
	}
	if u.adopting {
		for _, name := range listed {
			if _, marked := u.volumes[name]; !marked && !u.leaving[name] {
				u.volumes[name] = false
			}
		}
		u.adopting = false
	}
	return append([]v1.UniqueVolumeName{}, slices.Sorted(maps.Keys(u.volumes))...)
}

// report records the list that the API server had after a post. The posts are made one after another, so that none that
// removes a volume is under way.
func (u *InUse) report(names []v1.UniqueVolumeName) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for name := range u.volumes {
		u.volumes[name] = slices.Contains(names, name)
	}
	for name := range u.leaving {
		if !slices.Contains(names, name) {
			delete(u.leaving, name)
		}
	}
	close(u.reported)
	u.reported = make(chan struct{})
}
