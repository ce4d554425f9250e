package apivolumes

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestLatest: the claim of a running pod is read in the background, also if it was never read: no caller waits, however
// long the API server takes. It is read once a minute or so, and the pod is woken by a change.
func TestLatest(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.bound("data")
		w.set(func() { w.hangs = true })
		p, spec := pod("a", "data")
		began := time.Now()
		for range 10 {
			if _, ok := w.Latest(p, spec); ok {
				t.Error("a claim that wasn't read")
			}
		}
		if time.Since(began) != 0 {
			t.Error("Latest waits")
		}
		pass(timeout)
		w.set(func() { w.hangs = false })
		if woken, reads := w.taken(); len(woken) != 0 || reads["persistentvolumeclaims/data"] != 1 {
			t.Errorf("woken %v after %v", woken, reads)
		}
		pass(2 * refreshAfter)
		w.Latest(p, spec)
		synctest.Wait()
		if woken, _ := w.taken(); len(woken) != 1 || woken[0] != types.UID("a") {
			t.Errorf("woken are %v", woken)
		}
		c, ok := w.Latest(p, spec)
		if !ok || c.Volume.Name != "pv-data" {
			t.Errorf("the claim is %v, %t", c, ok)
		}
		for range 100 {
			w.Latest(p, spec)
		}
		synctest.Wait()
		if _, reads := w.taken(); len(reads) != 0 {
			t.Errorf("a new claim is read: %v", reads)
		}

		// A claim that podexecd has written isn't news.
		changed := c.Claim.DeepCopy()
		changed.ResourceVersion = "2"
		w.Update(changed)
		w.bound("data", func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.ResourceVersion = "2" })
		pass(2 * refreshAfter)
		if got, _ := w.Latest(p, spec); got.Claim.ResourceVersion != "2" {
			t.Errorf("version %s", got.Claim.ResourceVersion)
		}
		synctest.Wait()
		if woken, reads := w.taken(); len(woken) != 0 || reads["persistentvolumeclaims/data"] != 1 {
			t.Errorf("woken %v after %v", woken, reads)
		}
		w.Drop("a")
		if len(w.claims) > 0 {
			t.Errorf("left: %v", w.claims)
		}
	})
}
