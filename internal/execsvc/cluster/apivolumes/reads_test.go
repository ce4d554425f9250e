package apivolumes

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const claimData = "persistentvolumeclaims/data"

func pending(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.Status.Phase = v1.ClaimPending }

// waits is a pod that waits for the claim.
func (w *world) waits(t *testing.T, uid types.UID) {
	t.Helper()
	p, spec := pod(uid, "data")
	if _, err := w.claim(t, p, spec); err == nil {
		t.Error("a claim that can't be used was taken")
	}
}

// TestSharedReads: many pods that wait for a claim share its reads, and are woken when it is bound.
func TestSharedReads(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.delay = 100 * time.Millisecond
		w.bound("data", pending)
		var group sync.WaitGroup
		for i := range 50 {
			group.Go(func() { w.waits(t, types.UID(fmt.Sprint(i))) })
		}
		group.Wait()
		if _, reads := w.taken(); reads[claimData] != 1 {
			t.Errorf("the reads of 50 pods: %v", reads)
		}
		pass(time.Hour)
		_, reads := w.taken()
		// One pod alone reads it 160 to 250 times an hour. 50 that share only requests under way read it 7,600 times.
		if n := reads[claimData]; n < 160 || n > 300 {
			t.Errorf("%d reads in an hour", n)
		}
		w.bound("data")
		pass(2 * lastPause)
		woken, reads := w.taken()
		if len(woken) != 50 || reads[claimData] > 2 {
			t.Errorf("%d pods were woken by %v", len(woken), reads)
		}
		for _, uid := range woken {
			p, spec := pod(uid, "data")
			if c, err := w.claim(t, p, spec); err != nil || c.Volume.Name != "pv-data" {
				t.Error(err)
			}
		}
		pass(time.Hour)
		if woken, reads := w.taken(); len(woken)+len(reads) > 0 {
			t.Errorf("then %v were woken, and %v read", woken, reads)
		}
	})
}

// TestReadsOfManyPods: pods that are made, changed and removed all the time don't have their claim read more often: one that isn't bound,
// one that doesn't exist, and one of another pod.
func TestReadsOfManyPods(t *testing.T) {
	for name, prepare := range map[string]func(w *world){
		"pending": func(w *world) { w.bound("data", pending) },
		"missing": func(*world) {},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				prepare(w)
				for i := range 3600 {
					w.waits(t, types.UID(fmt.Sprint(i)))
					for j := range 5 {
						w.waits(t, types.UID(fmt.Sprint(i-j))) // They were changed.
					}
					w.Drop(types.UID(fmt.Sprint(i - 5)))
					if i%60 > 50 { // No pod is left for some time.
						for j := range 5 {
							w.Drop(types.UID(fmt.Sprint(i - j)))
						}
					}
					pass(time.Second)
				}
				if _, reads := w.taken(); reads[claimData] > 500 {
					t.Errorf("%v in an hour", reads)
				}
				if len(w.Volumes.followed) > 10 || len(w.claimed.objects) > 1 {
					t.Errorf("%d pods are followed, and %d objects kept", len(w.Volumes.followed), len(w.claimed.objects))
				}
			})
		})
	}
	t.Run("another pod's", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.bound("data")
			for i := range 3600 {
				p, spec := pod(types.UID(fmt.Sprint(i)), "")
				p.Name, p.Spec.Volumes[0].Name, p.Spec.Containers = "da", "ta", nil
				spec.PersistentVolumeClaim, spec.Ephemeral = nil, &v1.EphemeralVolumeSource{}
				w.bound("da-ta")
				if _, err := w.claim(t, p, spec); err == nil {
					t.Error("another pod's claim was taken")
				}
				w.Drop(types.UID(fmt.Sprint(i - 1)))
				pass(time.Second)
			}
			if _, reads := w.taken(); reads["persistentvolumeclaims/da-ta"] > 500 {
				t.Errorf("%v in an hour", reads)
			}
		})
	})
}

// TestLatePod: a pod that comes when others have waited for long finds a claim that is bound at once, or some seconds later.
func TestLatePod(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.bound("data", pending)
		w.waits(t, "a")
		pass(time.Hour)
		w.waits(t, "b")
		pass(2 * time.Second)
		w.taken()
		w.bound("data")
		pass(2 * time.Second)
		if woken, _ := w.taken(); len(woken) != 2 {
			t.Errorf("woken after 2 s: %v", woken)
		}

		w.Drop("a")
		w.Drop("b")
		w.bound("data", pending)
		w.waits(t, "c")
		pass(20 * time.Minute)
		w.bound("data")
		began := time.Now()
		p, spec := pod("d", "data")
		if _, err := w.claim(t, p, spec); err != nil || time.Since(began) > 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// TestNoOldClaim: a claim is never as it was before the call, or before a pod was made: neither by a read that was under way, nor by one
// of another pod.
func TestNoOldClaim(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.delay = time.Second
		version := 0
		change := func() {
			version++
			w.bound("data", func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.ResourceVersion = fmt.Sprint(version) })
		}
		var group sync.WaitGroup
		for i := range 20 {
			change()
			want := version
			isOld := func(c Claimed) bool {
				got, err := strconv.Atoi(c.Claim.ResourceVersion)
				return err != nil || got < want
			}
			p, spec := pod(types.UID(fmt.Sprint(i)), "data")
			group.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if c, err := w.Read(ctx, p, spec); err != nil || isOld(c) {
					t.Errorf("Read: error %v, or a claim before version %d", err, want)
				}
			})
			time.Sleep(firstPause + time.Millisecond)
			group.Go(func() {
				if c, err := w.claim(t, p, spec); err != nil || isOld(c) {
					t.Errorf("Claim: error %v, or a claim before version %d", err, want)
				}
			})
		}
		group.Wait()
		if _, reads := w.taken(); reads[claimData] > 10 {
			t.Errorf("the reads of 5 seconds: %v", reads)
		}
	})
}

// TestWaitEnds: when no pod waits any more, nothing reads.
func TestWaitEnds(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.bound("data", pending)
		w.waits(t, "a")
		w.waits(t, "b")
		pass(time.Minute)
		w.Drop("a")
		synctest.Wait()
		name := types.NamespacedName{Namespace: "default", Name: "data"}
		if o := w.claimed.objects[name]; o == nil || !o.served || len(o.waiters) != 1 {
			t.Errorf("with one pod: %+v", o)
		}
		w.Drop("b")
		synctest.Wait()
		if o := w.claimed.objects[name]; o != nil && (o.served || len(o.waiters) > 0) {
			t.Errorf("without a pod: %+v", o)
		}
		w.taken()
		pass(time.Hour)
		w.Drop("c")
		if _, reads := w.taken(); len(reads)+len(w.claimed.objects) > 0 {
			t.Errorf("without a pod: %v are read, and %v kept", reads, w.claimed.objects)
		}
	})
}

// TestSharedRefresh: the claim of many pods that run is read once a minute or so, and a change wakes each of them once.
func TestSharedRefresh(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.bound("data")
		sync := func() {
			for i := range 50 {
				p, spec := pod(types.UID(fmt.Sprint(i)), "data")
				if _, err := w.claim(t, p, spec); err != nil {
					t.Error(err)
				}
			}
		}
		for range 360 {
			sync()
			pass(10 * time.Second)
		}
		if woken, reads := w.taken(); len(woken) > 0 || reads[claimData] < 30 || reads[claimData] > 61 {
			t.Errorf("%v in an hour, and woken %v", reads, woken)
		}
		w.bound("data", func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.ResourceVersion = "2" })
		pass(2 * refreshAfter)
		sync()
		pass(time.Second)
		if woken, _ := w.taken(); len(woken) != 50 {
			t.Errorf("woken are %v", woken)
		}
	})
}

// TestSharedAttachment: all waits for an attachment share its reads, also those that begin again after a time limit.
func TestSharedAttachment(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.listed(true)
		w.attachment(false)
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				for range 30 {
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
					if _, err := w.WaitAttached(ctx, volume); err == nil {
						t.Error("a volume that isn't attached was taken")
					}
					cancel()
				}
			})
		}
		group.Wait()
		if _, reads := w.taken(); reads["volumeattachments/"+volume.ObjectName("n1")] > 500 {
			t.Errorf("%v in an hour", reads)
		}
		for range 20 {
			group.Go(func() {
				if _, err := w.WaitAttached(t.Context(), volume); err != nil {
					t.Error(err)
				}
			})
		}
		pass(time.Second)
		w.attachment(true)
		began := time.Now()
		group.Wait()
		if took := time.Since(began); took > 2*lastPause {
			t.Errorf("an attachment is seen after %v", took)
		}
	})
}
