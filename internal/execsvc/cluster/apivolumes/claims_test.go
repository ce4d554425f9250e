package apivolumes

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// TestClaim: the errors are the kubelet's (desired_state_of_world_populator.go), and a claim that isn't this pod's, or a
// PersistentVolume that isn't the claim's, is never used.
func TestClaim(t *testing.T) {
	now := metav1.Now()
	for _, tc := range []struct {
		name   string
		change func(*v1.PersistentVolumeClaim, *v1.PersistentVolume)
		pod    func(*v1.Pod)
		want   string
	}{
		{name: "bound"},
		{name: "pending", change: func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.Status.Phase = v1.ClaimPending }, want: "PVC is not bound"},
		{name: "lost", change: func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.Status.Phase = v1.ClaimLost }, want: "PVC is not bound"},
		{name: "no volume", change: func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.Spec.VolumeName = "" }, want: "PVC has empty pvc.Spec.VolumeName"},
		{
			name: "deleted", change: func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.DeletionTimestamp = &now },
			want: "PVC is being deleted",
		},
		{
			name: "deleted but protected", change: func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) {
				c.DeletionTimestamp, c.Finalizers = &now, []string{protection}
			},
		},
		{name: "another claim's volume", change: func(_ *v1.PersistentVolumeClaim, p *v1.PersistentVolume) { p.Spec.ClaimRef.UID = "other" }, want: "does not point to claim.UID u-data"},
		{name: "a volume without a claim", change: func(_ *v1.PersistentVolumeClaim, p *v1.PersistentVolume) { p.Spec.ClaimRef = nil }, want: "nil pv.Spec.ClaimRef"},
		{name: "another object", change: func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.Name = "other" }, want: "has another object than default/data"},
		{name: "no such claim", pod: func(p *v1.Pod) { p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "none" }, want: "failed to fetch PVC from API server: "},
		{
			name: "block volume that is mounted", change: func(_ *v1.PersistentVolumeClaim, p *v1.PersistentVolume) {
				p.Spec.VolumeMode = ptr.To(v1.PersistentVolumeBlock)
			},
			want: "volume data has volumeMode Block, but is specified in volumeMounts",
		},
		{
			name: "file system as a device", pod: func(p *v1.Pod) {
				p.Spec.Containers[0].VolumeMounts, p.Spec.Containers[0].VolumeDevices = nil, []v1.VolumeDevice{{Name: "data"}}
			},
			want: "volume data has volumeMode Filesystem, but is specified in volumeDevices",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.bound("data", func(c *v1.PersistentVolumeClaim, p *v1.PersistentVolume) {
					if tc.change != nil {
						tc.change(c, p)
					}
				})
				p, spec := pod("a", "data")
				if tc.pod != nil {
					tc.pod(p)
				}
				got, err := w.claim(t, p, spec)
				if tc.want == "" && (err != nil || got.Claim.Name != "data" || got.Volume.Name != "pv-data") ||
					tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
					t.Errorf("%v; want %q", err, tc.want)
				}
			})
		})
	}
}

// TestEphemeralClaim: the claim of a generic ephemeral volume must be owned by its pod.
func TestEphemeralClaim(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		p, spec := pod("a", "")
		spec.PersistentVolumeClaim, spec.Ephemeral = nil, &v1.EphemeralVolumeSource{}
		w.bound("pod-a-data")
		if _, err := w.claim(t, p, spec); err == nil || !strings.Contains(err.Error(), "was not created for pod default/pod-a (pod is not owner)") {
			t.Errorf("the claim of another owner: %v", err)
		}
		w.bound("pod-a-data", func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) {
			c.OwnerReferences = []metav1.OwnerReference{{UID: "a", Controller: ptr.To(true)}}
		})
		pass(2 * firstPause)
		if woken, _ := w.taken(); len(woken) != 1 {
			t.Errorf("woken by the pod's own claim: %v", woken)
		}
		if _, err := w.claim(t, p, spec); err != nil {
			t.Error(err)
		}
	})
}

// TestClaimRefreshed: a pod that runs never waits for the API server. Its claim is read again in the background, and a change
// wakes it.
func TestClaimRefreshed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.bound("data")
		p, spec := pod("a", "data")
		if _, err := w.claim(t, p, spec); err != nil {
			t.Fatal(err)
		}
		w.taken()
		sync := func() Claimed {
			t.Helper()
			began := time.Now()
			c, err := w.claim(t, p, spec)
			if took := time.Since(began); err != nil || took > 0 {
				t.Errorf("%v after %v", err, took)
			}
			return c
		}
		for range 10 {
			sync()
		}
		if _, reads := w.taken(); len(reads) > 0 {
			t.Errorf("a claim that was just read is read again: %v", reads)
		}
		for _, down := range []func(bool){func(on bool) { w.away = on }, func(on bool) { w.hangs = on }} {
			w.set(func() { down(true) })
			for range 30 {
				pass(time.Minute)
				sync()
			}
			w.set(func() { down(false) })
			pass(timeout)
		}
		w.bound("data", func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.ResourceVersion = "2" })
		pass(2 * refreshAfter)
		sync()
		pass(time.Second)
		if woken, _ := w.taken(); !slices.Equal(woken, []types.UID{"a"}) || sync().Claim.ResourceVersion != "2" {
			t.Errorf("woken by a change: %v", woken)
		}
		w.Drop("a")
		w.set(func() { w.away = true })
		if _, err := w.claim(t, p, spec); err == nil {
			t.Error("a claim is known after its pod was dropped")
		}
		w.Drop("a")
	})
}

// TestManyClaims: the requests of a node are bounded, however many claims its pods wait for, and pods that are dropped are no
// longer waited for.
func TestManyClaims(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.delay = time.Second
		var group sync.WaitGroup
		for i := range 2 * maxFollowed {
			group.Go(func() {
				p, spec := pod(types.UID(fmt.Sprint(i)), fmt.Sprint("claim-", i))
				if _, err := w.claim(t, p, spec); err == nil {
					t.Error("a claim that doesn't exist was taken")
				}
			})
		}
		group.Wait()
		pass(w.delay) // The last request of a call may begin as the call's time ends.
		w.taken()
		pass(10 * time.Minute)
		w.set(func() {
			if w.most != maxReads {
				t.Errorf("%d requests at a time", w.most)
			}
		})
		_, reads := w.taken()
		for name, n := range reads {
			if n < 7 || n > 12 {
				t.Errorf("%s is read %d times of %v in 10 minutes; want a fair share", name, n, 600*maxReads/maxFollowed)
			}
		}
		if len(reads) != maxFollowed {
			t.Errorf("%d claims are read", len(reads))
		}
		for i := range 2 * maxFollowed {
			w.Drop(types.UID(fmt.Sprint(i)))
		}
		pass(2 * maxFollowed * w.delay / maxReads) // the reads that wait for a place
		w.taken()
		pass(time.Hour)
		if _, reads := w.taken(); len(reads) > 0 {
			t.Errorf("the claims of %d pods that are gone are read", len(reads))
		}
	})
}

// TestClose: Close ends with a server that never answers.
func TestClose(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.hangs = true
		p, spec := pod("a", "data")
		done := make(chan error)
		go func() {
			_, err := w.claim(t, p, spec)
			done <- err
		}()
		pass(time.Second)
		began := time.Now()
		w.Close()
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v", took)
		}
		if err := <-done; err == nil {
			t.Error("the claim was taken")
		}
		if _, err := w.claim(t, p, spec); err == nil {
			t.Error("the claim was taken after Close")
		}
	})
}
