package storage

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestClaimIsBoundAnew: if a pod's claim is bound to another volume while the pod waits, the first one is given up, and may be attached
// elsewhere. A volume that the pod's other volumes refer to stays.
func TestClaimIsBoundAnew(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		no := errors.New("no")
		d.answer(func(_ context.Context, call string) error {
			if strings.HasPrefix(call, "publish old") {
				return &Error{Uncertain, no}
			}
			return nil
		})
		n := start(t, dir, d, nil)
		p := pod("u1", "old", "old.b")
		p.Spec.Volumes[1].PersistentVolumeClaim.ClaimName = "old"
		if err := n.setUp(p); !errors.Is(err, no) {
			t.Fatalf("error %v", err)
		}
		p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "new"
		if err := n.setUp(p); !errors.Is(err, no) {
			t.Fatalf("error %v", err)
		}
		if synctest.Wait(); !d.isStaged("old") || !d.isStaged("new") {
			t.Errorf("staged: %v, want old, which one of the pod's volumes refers to, and new", d.staged)
		}
		p.Spec.Volumes[1].PersistentVolumeClaim.ClaimName = "new"
		n.mustSetUp(p)
		time.Sleep(10 * time.Minute)
		if d.isStaged("old") || d.used("old") || !d.isStaged("new") {
			t.Errorf("staged: %v, in use: %v, want only new", d.staged, d.inUse)
		}
		n.mustTearDown("u1")
		n.empty()
	})
}
