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
	volumes  map[v1.UniqueVolumeName]*use
	// version counts the calls of Mark and Drop.
	version uint64
	// reported is closed, and replaced, after each report.
	reported chan struct{}
	// wake has the status posted soon.
	wake func()
}

// use is one volume.
type use struct {
	// since is the version in which the volume was marked, and confirmed is set once the API server has it.
	since     uint64
	confirmed bool
}

// NewInUse returns an InUse that leaves the Node's list as it is until Restore is called.
func NewInUse() *InUse {
	return &InUse{volumes: map[v1.UniqueVolumeName]*use{}, reported: make(chan struct{}), wake: func() {}}
}

func (u *InUse) setWake(wake func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.wake = wake
}

// Restore sets the volumes that are in use since before a restart. It is called once, when all of them are known: the
// status lists no others from then on.
func (u *InUse) Restore(names ...v1.UniqueVolumeName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.version++
	u.restored = true
	for _, name := range names {
		if u.volumes[name] == nil {
			u.volumes[name] = &use{since: u.version}
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
	of := u.volumes[name]
	if of == nil {
		u.version++
		of = &use{since: u.version}
		u.volumes[name] = of
		u.wake()
	}
	return of.confirmed, u.reported
}

// Drop removes a volume. It must be unmounted: the API server may have it detached from now on.
func (u *InUse) Drop(name v1.UniqueVolumeName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.volumes[name] == nil {
		return
	}
	u.version++
	delete(u.volumes, name)
	u.wake()
}

// list returns the volumes in order, and the version of the list; nil if they aren't known yet.
func (u *InUse) list() (names []v1.UniqueVolumeName, version uint64) {
	if u == nil {
		return nil, 0
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.restored {
		return nil, 0
	}
	return append([]v1.UniqueVolumeName{}, slices.Sorted(maps.Keys(u.volumes))...), u.version
}

// report records the list that the API server had after a post of the list with this version. A volume that was marked
// later isn't confirmed by it, even if it is in it: a post that removes it may have been under way.
func (u *InUse) report(version uint64, names []v1.UniqueVolumeName) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	there := map[v1.UniqueVolumeName]bool{}
	for _, name := range names {
		there[name] = true
	}
	for name, of := range u.volumes {
		of.confirmed = there[name] && of.since <= version
	}
	close(u.reported)
	u.reported = make(chan struct{})
}
