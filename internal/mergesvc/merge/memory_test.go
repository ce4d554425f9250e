package merge_test

import (
	"maps"
	"slices"

	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// memory is the state that a store would have after the revisions.
type memory struct {
	number   uint64
	pods     map[string]*revision.Pod
	complete map[string]bool
}

func newMemory() *memory {
	return &memory{pods: map[string]*revision.Pod{}, complete: map[string]bool{}}
}

func (m *memory) take(rev *revision.Revision) {
	m.number = rev.Number
	for _, c := range rev.Changes {
		for _, p := range c.Pods {
			if c.Op == revision.REMOVE {
				delete(m.pods, string(p.UID()))
			} else {
				m.pods[string(p.UID())] = p
			}
		}
	}
	for _, p := range rev.Settled {
		m.pods[string(p.UID())] = p
	}
	for _, name := range rev.Dropped {
		delete(m.complete, name)
	}
	if rev.BecameReady {
		m.complete[rev.Source] = true
	}
}

func (m *memory) stored() merge.Stored {
	out := merge.Stored{Number: m.number, Complete: maps.Clone(m.complete)}
	for _, uid := range slices.Sorted(maps.Keys(m.pods)) {
		out.Pods = append(out.Pods, m.pods[uid])
	}
	return out
}
