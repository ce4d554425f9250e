package cgroup

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"

	"github.com/opencontainers/cgroups"
	v1 "k8s.io/api/core/v1"
)

// tiers are the cgroups that pods share: kubepods and the QoS classes.
type tiers struct {
	// mu is held while they change.
	mu                              sync.Mutex
	kubepods, burstable, bestEffort tier
	// failing is set while the limits of kubepods can't be set.
	failing bool
}

// tier is one of them. applied are its last resources: nil if none were set yet.
type tier struct {
	path    string
	group   group
	applied *cgroups.Resources
}

// set applies the resources unless they are the last ones. So two agents that share a root don't overwrite each other
// at each sync: each writes only when its own pods change.
func (t *tier) set(r cgroups.Resources) error {
	if t.applied != nil && reflect.DeepEqual(*t.applied, r) {
		return nil
	}
	t.applied = nil
	if err := t.group.set(r); err != nil {
		return fmt.Errorf("set the limits of the cgroup %s: %w", t.path, err)
	}
	t.applied = &r
	return nil
}

// makeTiers creates missing tiers, and limits them. Values that depend on the pods stay until Balance: running pods
// may not be known yet.
func (m *Manager) makeTiers(logger *slog.Logger) error {
	var err error
	if m.tiers.kubepods, err = m.makeTier(m.layout.kubepods); err != nil {
		return err
	}
	if m.tiers.burstable, err = m.makeTier(m.layout.burstable); err != nil {
		return err
	}
	if m.tiers.bestEffort, err = m.makeTier(m.layout.bestEffort); err != nil {
		return err
	}
	m.settings.hugePages = m.tiers.kubepods.group.pageSizes()
	if err := m.tiers.bestEffort.set(m.settings.bestEffort()); err != nil {
		return err
	}
	limits := m.settings.kubepods(m.allocatable, asked{})
	limits.Unified = nil
	err = m.tiers.kubepods.set(limits)
	if errors.Is(err, ErrBusy) {
		// Running pods use more than the limit. Evictions may reduce it.
		logger.Warn("pods use more memory than is allocatable; retrying to set the limit", "error", err)
		m.tiers.failing = true
		m.limited(err)
		return nil
	}
	if err == nil {
		m.limited(nil)
	}
	return err
}

func (m *Manager) makeTier(n name) (tier, error) {
	path := m.driver.path(n)
	g, err := m.driver.open(n)
	if err == nil {
		err = g.create()
	}
	if err != nil {
		return tier{}, fmt.Errorf("make the cgroup %s: %w", path, err)
	}
	return tier{path: path, group: g}, nil
}

// pageSizes returns the sizes of huge pages that the cgroup can limit.
func (g group) pageSizes() []string {
	sizes := cgroups.HugePageSizes()
	if !g.v2 {
		if _, ok := g.GetPaths()["hugetlb"]; !ok {
			return nil
		}
		return sizes
	}
	var limited []string
	for _, size := range sizes {
		if _, err := cgroups.ReadFile(g.Path(""), "hugetlb."+size+".max"); err == nil {
			limited = append(limited, size)
		}
	}
	return limited
}

// Balance sets the tiers for these pods, all that aren't terminating: the burstable pods' cpu share and, if memory is
// reserved, the sums of memory requests. It is called before a pod starts and periodically: for pods that went or
// were resized, and to retry a memory limit that was ErrBusy. It writes only changes.
func (m *Manager) Balance(pods []*v1.Pod) error {
	if m.off {
		return nil
	}
	m.tiers.mu.Lock()
	defer m.tiers.mu.Unlock()
	a := sum(pods)
	m.metrics.reserved(m.settings, a)
	err := m.tiers.kubepods.set(m.settings.kubepods(m.allocatable, a))
	if failing := err != nil; failing != m.tiers.failing {
		m.tiers.failing = failing
		m.limited(err)
	}
	return errors.Join(
		err,
		m.tiers.burstable.set(m.settings.burstable(a)),
		m.tiers.bestEffort.set(m.settings.bestEffort()),
	)
}
