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

// firstExclusive resolves as a claim does whose modes are changed after the first pod's volume was resolved.
type firstExclusive struct{ Claims }

// Resolve is part of Claims.
func (f firstExclusive) Resolve(ctx context.Context, pod *v1.Pod, spec *v1.Volume) (Volume, error) {
	v, err := f.Claims.Resolve(ctx, pod, spec)
	v.Exclusive = pod.UID == "u1"
	return v, err
}

// TestSharedLater: a pod that doesn't share its volume keeps it for itself if the claim's modes are changed, also after a restart.
func TestSharedLater(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	first, second := pod("u1", "h"), pod("u2", "h")
	waits := func(t *testing.T, n *node) {
		t.Helper()
		if e, ok := errors.AsType[*InUseError](n.setUp(second)); !ok || e.User != "ns/u1" {
			t.Errorf("the error is %v", e)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, func(c *Config) { c.Claims = firstExclusive{c.Claims} })
		n.mustSetUp(first)
		waits(t, n)
	})
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, nil)
		waits(t, n)
		n.mustTearDown("u1")
		n.mustSetUp(second)
		n.mustTearDown("u2")
	})
}
