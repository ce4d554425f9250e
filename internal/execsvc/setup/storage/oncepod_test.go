package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// oncePod resolves to volumes that are ReadWriteOncePod.
type oncePod struct{ Claims }

// Resolve is part of Claims.
func (o oncePod) Resolve(ctx context.Context, pod *v1.Pod, spec *v1.Volume) (Volume, error) {
	v, err := o.Claims.Resolve(ctx, pod, spec)
	v.Exclusive, v.OncePod = true, true
	return v, err
}

// refused is the kubelet's event of a second pod, with the pod that uses the volume.
func refused(operation, volume, user string) string {
	return fmt.Sprintf("%s failed for volume %q : volume uses the ReadWriteOncePod access mode and is already in use by another pod: %s",
		operation, volume, user)
}

// wantRefused checks the whole text of a pod's event.
func (n *node) wantRefused(p *v1.Pod, want string) {
	n.t.Helper()
	err := n.setUp(p)
	if _, ok := errors.AsType[*InUseError](err); !ok || err.Error() != want {
		n.t.Errorf("the error of %s is %v; want %s", p.Name, err, want)
	}
}

// TestOncePod: a second pod doesn't get a volume that is ReadWriteOncePod, as a file system or a device, until it is unpublished for the
// first one: also after a restart, and after an older podexecd whose record doesn't say that the volume isn't shared. The second volume of
// one pod is no other pod.
func TestOncePod(t *testing.T) {
	for name, tc := range map[string]struct {
		operation string
		device    bool
		older     bool
	}{
		"a file system":                {operation: "MountVolume.SetUp"},
		"a file system, older records": {operation: "MountVolume.SetUp", older: true},
		"a device":                     {operation: "MapVolume.SetUpDevice", device: true},
		"a device, older records":      {operation: "MapVolume.SetUpDevice", device: true, older: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir, d := t.TempDir(), newTruth()
			of := pod
			if tc.device {
				of = devicePod
			}
			first, second := of("u1", "h", "i"), of("u2", "h")
			first.Spec.Volumes[1].PersistentVolumeClaim.ClaimName = "h"
			begin := func(t *testing.T, once bool) *node {
				t.Helper()
				n := start(t, dir, d, func(c *Config) {
					c.Backends = map[string]Backend{"b": &deviceTruth{truth: d}}
					if once {
						c.Claims = oncePod{c.Claims}
					}
				})
				n.claims.device = tc.device
				return n
			}
			want := refused(tc.operation, "pv-h", "ns/u1")
			synctest.Test(t, func(t *testing.T) {
				n := begin(t, !tc.older)
				n.mustSetUp(first)
				if !tc.older {
					n.wantRefused(second, want)
				}
				n.stop()
			})
			synctest.Test(t, func(t *testing.T) {
				n := begin(t, true)
				n.wantRefused(second, want)
				n.mustSetUp(first)

				asked, answer := make(chan struct{}), make(chan struct{})
				d.answer(func(_ context.Context, call string) error {
					if strings.HasPrefix(call, "unpublish") {
						close(asked)
						<-answer
					}
					return nil
				})
				gone := make(chan error, 1)
				go func() { gone <- n.manager.TearDown(t.Context(), "u1") }()
				<-asked
				n.wantRefused(second, want)
				if d.isPublishedFor("h", "u2") {
					t.Error("the second pod has the volume")
				}
				close(answer)
				if err := <-gone; err != nil {
					t.Fatal(err)
				}
				d.answer(nil)
				n.mustSetUp(second)
				n.wantRefused(of("u3", "h"), refused(tc.operation, "pv-h", "ns/u2"))
				n.mustTearDown("u3")
				n.mustTearDown("u2")
				n.empty()
				n.stop()
			})
		})
	}
}

// modes resolves volumes for these pods as ReadWriteOncePod, and for others not.
type modes struct {
	Claims
	once map[types.UID]bool
}

// Resolve is part of Claims.
func (m modes) Resolve(ctx context.Context, pod *v1.Pod, spec *v1.Volume) (Volume, error) {
	v, err := m.Claims.Resolve(ctx, pod, spec)
	v.OncePod = m.once[pod.UID]
	v.Exclusive = v.OncePod
	return v, err
}

// TestOncePodAndOthers: if two PersistentVolumes have one handle, and one of them is ReadWriteOncePod, its pod has the volume for itself
// too, whichever pod is first.
func TestOncePodAndOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, t.TempDir(), newTruth(), func(c *Config) { c.Claims = modes{c.Claims, map[types.UID]bool{"once": true}} })
		once, shares := pod("once", "h.once"), pod("shares", "h.shares")
		n.mustSetUp(once)
		n.wantRefused(shares, `MountVolume.SetUp failed for volume "pv-h.shares" : h is used by pod ns/once, which doesn't share it: `+
			"pod ns/shares waits until that pod is gone")
		n.mustTearDown("once")
		n.mustSetUp(shares)
		n.wantRefused(once, refused("MountVolume.SetUp", "pv-h.once", "ns/shares"))
		n.mustTearDown("shares")
		n.mustSetUp(once)
		n.mustTearDown("once")
		n.empty()
		n.stop()
	})
}

// TestOncePodSharedBefore: pods that share a volume since an older podexecd, or since its access modes were others, keep it. The next one waits
// for all of them.
func TestOncePodSharedBefore(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	one, two, next := pod("u1", "h"), pod("u2", "h"), pod("u3", "h")
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, nil)
		n.mustSetUp(one)
		n.mustSetUp(two)
		n.stop()

		n = start(t, dir, d, func(c *Config) { c.Claims = oncePod{c.Claims} })
		d.called()
		n.mustSetUp(one)
		n.mustSetUp(two)
		n.expect()
		n.wantRefused(next, refused("MountVolume.SetUp", "pv-h", "ns/u1"))
		n.mustTearDown("u1")
		n.wantRefused(next, refused("MountVolume.SetUp", "pv-h", "ns/u2"))
		n.mustTearDown("u2")
		n.mustSetUp(next)
		n.mustTearDown("u3")
		n.empty()
		n.stop()
	})
}

// TestOncePodAlone: as with the kubelet, a pod takes such a volume although another one that it needs isn't free, or can't be resolved: the
// claims of an API pod aren't read again for each of its volumes.
func TestOncePodAlone(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		claims := &without{missing: "c"}
		n := start(t, dir, d, func(c *Config) {
			claims.Claims = oncePod{c.Claims}
			c.Claims = claims
		})
		n.mustSetUp(pod("u1", "a"))
		second := pod("u2", "a", "b", "c")
		if err := n.setUpOne(second, "b"); err != nil {
			t.Error(err)
		}
		if err := n.setUpOne(second, "a"); !isInUse(err) {
			t.Errorf("the error is %v", err)
		}
		if n.claims.asked != 3 {
			t.Errorf("claims are read %d times for three volumes", n.claims.asked)
		}
		n.mustTearDown("u1")
		n.mustTearDown("u2")
		n.empty()
		n.stop()
	})
}

// TestOncePodContexts: a pod with another SELinux context has the error, and the metric, of that first, as with the kubelet; while the first
// pod's volume is being unpublished, it is only in use.
func TestOncePodContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTruth()
		l := &labelled{contexts: map[types.UID]string{"u1": "a", "u2": "a", "u3": "b"}}
		n := start(t, t.TempDir(), d, func(c *Config) {
			l.Claims = oncePod{c.Claims}
			c.Claims = l
		})
		n.mustSetUp(pod("u1", "h"))
		other := pod("u3", "h")
		n.wantRefused(pod("u2", "h"), refused("MountVolume.SetUp", "pv-h", "ns/u1"))
		n.mustTearDown("u2")
		n.waits(other, "ns/u1", "a", "b")
		no := errors.New("no")
		d.answer(func(_ context.Context, call string) error {
			if strings.HasPrefix(call, "unpublish") {
				return &Error{Final, no}
			}
			return nil
		})
		if err := n.manager.TearDown(t.Context(), "u1"); !errors.Is(err, no) {
			t.Fatal(err)
		}
		n.wantRefused(other, refused("MountVolume.SetUp", "pv-h", "ns/u1"))
		d.answer(nil)
		n.mustTearDown("u1")
		n.mustSetUp(other)
		n.mustTearDown("u3")
		n.empty()
		n.stop()
	})
}
