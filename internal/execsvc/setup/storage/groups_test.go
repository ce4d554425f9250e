package storage

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
)

// grouped are claims whose PersistentVolumes give a group: the number of bytes of the claim's name. "h" gives none.
type grouped struct{ claims }

// Resolve is part of Claims.
func (g *grouped) Resolve(ctx context.Context, pod *v1.Pod, spec *v1.Volume) (Volume, error) {
	v, err := g.claims.Resolve(ctx, pod, spec)
	if n := int64(len(spec.PersistentVolumeClaim.ClaimName)); n > 1 {
		v.Group = &n
	}
	return v, err
}

// TestGroups: a pod has the groups of its published volumes, each once, also after a restart, when no claim can be read.
func TestGroups(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		with := func(c *Config) { c.Claims = &grouped{} }
		n := start(t, dir, d, with)
		want := func(uid string, want ...int64) {
			t.Helper()
			if got := n.Groups(pod(uid).UID); !slices.Equal(got, want) {
				t.Errorf("the groups of %s are %v; want %v", uid, got, want)
			}
		}
		want("u1")
		n.mustSetUp(pod("u1", "hhh", "hh", "kk", "h"))
		n.mustSetUp(pod("u2", "h"))
		want("u1", 2, 3)
		want("u2")
		n.stop()
		n = start(t, dir, d, with)
		want("u1", 2, 3)
		n.mustTearDown("u1")
		want("u1")
		n.stop()
	})
}
