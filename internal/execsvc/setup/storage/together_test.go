package storage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/setup/volume"
)

// setUpOne sets up one of a pod's volumes, as package volume does. Of all it calls, the order isn't certain.
func (n *node) setUpOne(p *v1.Pod, name string) error {
	v := volume.Volume{UID: p.UID, Name: name, Pod: p}
	v.Spec = &p.Spec.Volumes[slices.IndexFunc(p.Spec.Volumes, func(v v1.Volume) bool { return v.Name == name })]
	at, err := n.Locate(n.t.Context(), v)
	if err != nil {
		return err
	}
	v.Name, v.Dir = at.Name, filepath.Join(n.dir, "pods", string(p.UID), "volumes", "kubernetes.io~csi", at.Name)
	return n.SetUp(n.t.Context(), v)
}

func isInUse(err error) bool {
	_, is := errors.AsType[*InUseError](err)
	return is
}

// TestOppositeOrders: two pods that need the same two volumes, and begin with different ones, don't each get one, also if podexecd
// restarts meanwhile. One pod gets both, and the other one waits for its end.
func TestOppositeOrders(t *testing.T) {
	for name, restart := range map[string]bool{"running": false, "restarted": true} {
		t.Run(name, func(t *testing.T) {
			dir, d := t.TempDir(), newTruth()
			synctest.Test(t, func(t *testing.T) {
				only := func(c *Config) { c.Claims = exclusive{c.Claims} }
				n := start(t, dir, d, only)
				first, second := pod("u1", "a", "b"), pod("u2", "b", "a")
				if err := n.setUpOne(first, "a"); err != nil {
					t.Fatal(err)
				}
				e, is := errors.AsType[*InUseError](n.setUpOne(second, "b"))
				if !is || e.Volume != "a" || e.User != "ns/u1" || e.Pod != "ns/u2" {
					t.Errorf("the error of the second pod is %v", e)
				}
				if restart {
					n.stop()
					n = start(t, dir, d, only)
					if err := n.setUpOne(second, "b"); !isInUse(err) {
						t.Errorf("the error of the second pod is %v", err)
					}
				}
				n.mustSetUp(first)
				if err := n.setUp(second); !isInUse(err) {
					t.Errorf("the error of the second pod is %v", err)
				}
				n.mustTearDown("u1")
				n.mustSetUp(second)
				n.mustTearDown("u2")
				n.empty()
				n.stop()
			})
		})
	}
}

// without resolves all claims but one.
type without struct {
	Claims
	missing string
}

// Resolve is part of Claims.
func (w *without) Resolve(ctx context.Context, pod *v1.Pod, spec *v1.Volume) (Volume, error) {
	if spec.Name == w.missing {
		return Volume{}, errors.New("no such claim")
	}
	return w.Claims.Resolve(ctx, pod, spec)
}

// TestMissingClaim: a pod that waits for a claim which doesn't exist yet has taken no other one. A volume that only an ephemeral container
// uses keeps the pod from nothing.
func TestMissingClaim(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		claims := &without{missing: "b"}
		n := start(t, dir, d, func(c *Config) {
			claims.Claims = exclusive{c.Claims}
			c.Claims = claims
		})
		waits, other := pod("u1", "a", "b"), pod("u2", "a")
		if n.setUp(waits) == nil {
			t.Error("a pod without its claim is set up")
		}
		n.mustSetUp(other)
		n.mustTearDown("u2")
		c := &waits.Spec.Containers[0]
		waits.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{VolumeMounts: c.VolumeMounts}}}
		c.VolumeMounts = c.VolumeMounts[:1]
		n.mustSetUp(waits)
		n.mustTearDown("u1")
		n.empty()
		n.stop()
	})
}

// TestNoDeadlock: pods that need random volumes, and take them in random orders, all get them at last, each after others have ended.
func TestNoDeadlock(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // It is a test.
		dir, d := t.TempDir(), newTruth()
		synctest.Test(t, func(t *testing.T) {
			n := start(t, dir, d, func(c *Config) { c.Claims = exclusive{c.Claims} })
			all := []string{"a", "b", "c", "d"}
			var pods []*v1.Pod
			lacks := map[*v1.Pod][]string{}
			for i := range 5 {
				r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
				p := pod(fmt.Sprint("u", i), all[:2+r.IntN(2)]...)
				pods, lacks[p] = append(pods, p), slices.Clone(all[:len(p.Spec.Volumes)])
			}
			for rounds := 0; len(pods) > 0; rounds++ {
				if rounds == 200 {
					t.Fatalf("seed %d: %d pods wait for each other", seed, len(pods))
				}
				i := r.IntN(len(pods))
				p := pods[i]
				at := r.IntN(len(lacks[p]))
				switch err := n.setUpOne(p, lacks[p][at]); {
				case err == nil:
					lacks[p] = slices.Delete(lacks[p], at, at+1)
				case !isInUse(err):
					t.Fatal(err)
				}
				if len(lacks[p]) == 0 {
					n.mustTearDown(p.UID)
					pods, lacks[p] = slices.Delete(pods, i, i+1), nil
				}
			}
			n.empty()
			n.stop()
		})
	}
}
