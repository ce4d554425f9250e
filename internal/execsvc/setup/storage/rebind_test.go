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

// TestReplaced: a pod whose arguments aren't those with which the volume is staged, as its PersistentVolume was replaced, gets it after the
// pods that use it are gone: it is unstaged, and staged with the new ones. While one of the pods that wait fits, it stays staged.
func TestReplaced(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, nil)
		n.mustSetUp(pod("u1", "h"))
		n.expect("mark name^h", "attached name^h", "stage h s0/dev/x", "publish h u1 p0")
		replaced := &Error{Unrepeatable, errors.New("replaced")}
		d.answer(func(_ context.Context, call string) error {
			if call == "publish h u2 p2" && d.isPublishedFor("h", "u1") {
				return replaced
			}
			return nil
		})
		n.claims.version = 2
		if err := n.setUp(pod("u2", "h")); !errors.Is(err, replaced) {
			t.Fatalf("error %v", err)
		}
		n.expect("publish h u2 p2")
		n.mustTearDown("u1")
		n.mustSetUp(pod("u2", "h"))
		n.expect("unpublish h u1", "unstage h", "attached name^h", "stage h s2/dev/x", "publish h u2 p2")
		n.mustTearDown("u2")
		n.empty()

		// The publication of one that fits goes on.
		d.called()
		d.answer(func(_ context.Context, call string) error {
			if strings.HasPrefix(call, "publish h u3") {
				return &Error{NotSent, errors.New("no")}
			}
			return nil
		})
		if err := n.setUp(pod("u3", "h")); err == nil {
			t.Fatal("it is set up")
		}
		d.called()
		n.claims.version = 3
		n.mustSetUp(pod("u4", "h"))
		n.mustTearDown("u4")
		for _, call := range d.called() {
			if strings.HasPrefix(call, "unstage") {
				t.Error("it is unstaged, and a pod that fits waits for it")
			}
		}
		n.mustTearDown("u3")
		n.empty()
	})
}
