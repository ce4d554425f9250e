package storage

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
)

// exclusive resolves to volumes that pods don't share.
type exclusive struct{ Claims }

// Resolve is part of Claims.
func (e exclusive) Resolve(ctx context.Context, pod *v1.Pod, spec *v1.Volume) (Volume, error) {
	v, err := e.Claims.Resolve(ctx, pod, spec)
	v.Exclusive = true
	return v, err
}

// TestExclusive: a second pod doesn't get a volume that pods don't share, also after a restart, until the first one is
// gone; the error names both.
func TestExclusive(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	only := func(c *Config) { c.Claims = exclusive{c.Claims} }
	waits := func(t *testing.T, n *node, p *v1.Pod, user string) {
		t.Helper()
		e, ok := errors.AsType[*InUseError](n.setUp(p))
		if !ok || e.User != user || e.Pod != p.Namespace+"/"+p.Name {
			t.Errorf("the error is %v", e)
		}
	}
	first, second := pod("u1", "h"), pod("u2", "h")
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, only)
		n.mustSetUp(first)
		n.mustSetUp(first)
		waits(t, n, second, "ns/u1")
	})
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, only)
		waits(t, n, second, "ns/u1")
		n.mustTearDown("u1")
		n.mustSetUp(second)
		waits(t, n, first, "ns/u2")
		n.mustTearDown("u2")
	})
}
