package storage

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
)

// sizes is a Sizes that expands each volume once when it is mounted.
type sizes struct {
	mu     sync.Mutex
	s      *Storage
	err    error
	synced int
}

// Mounted is part of Sizes.
func (z *sizes) Mounted(ctx context.Context, pod *v1.Pod, spec *v1.Volume) error {
	z.mu.Lock()
	s, err := z.s, z.err
	z.mu.Unlock()
	if err != nil {
		return err
	}
	return s.Expand(ctx, pod.UID, spec.Name, "big")
}

// Synced is part of Sizes.
func (z *sizes) Synced(*v1.Pod, *v1.Volume) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.synced++
}

// TestSizes: a volume is expanded after it is mounted and before a container may use it. A failure keeps the pod waiting, with
// the kubelet's text, and the next sync tries again; a pod that is deleted meanwhile leaves nothing. At later syncs, also after
// a restart, nothing is awaited.
func TestSizes(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		z := &sizes{err: errors.New("no space")}
		with := func(c *Config) { c.Sizes = z }
		n := start(t, dir, d, with)
		z.s = n.Storage
		p := pod("u1", "h")
		for range 2 {
			err := n.setUp(p)
			if err == nil || err.Error() != `MountVolume.Setup failed while expanding volume for volume "pv-h" : no space` {
				t.Errorf("the error is %v", err)
			}
			if _, err := n.manager.Mounts(t.Context(), p, &p.Spec.Containers[0], nil); err == nil {
				t.Error("a container may use a volume that is too small")
			}
		}
		if calls := withoutWaits(d.called()); strings.Join(calls, ",") != "mark name^h,stage h s0/dev/x,publish h u1 p0" {
			t.Errorf("calls %q", calls)
		}
		z.mu.Lock()
		z.err = nil
		z.mu.Unlock()
		n.mustSetUp(p)
		n.expect("expand h u1 big")
		if z.synced != 0 {
			t.Error("Synced is called before the volume may be used")
		}
		n.mustSetUp(p)
		n.stop()
		n = start(t, dir, d, with)
		n.mustSetUp(p)
		n.expect()
		if z.synced != 2 {
			t.Errorf("Synced is called %d times; want 2", z.synced)
		}
		n.mustTearDown("u1")
		synctest.Wait()
		d.called()

		z.mu.Lock()
		z.s, z.err = n.Storage, errors.New("no space")
		z.mu.Unlock()
		if n.setUp(pod("u2", "h")) == nil {
			t.Error("the pod doesn't wait")
		}
		n.mustTearDown("u2")
		n.empty()
		n.stop()
	})
}
