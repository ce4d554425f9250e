package storage

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestLifecycle: a volume is marked in use, awaited, staged and published; and all of that is undone in reverse order.
func TestLifecycle(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, newTruth(), nil)
		p := pod("u1", "h")
		n.mustSetUp(p)
		n.expect("mark name^h", "attached name^h", "stage h s0/dev/x", "publish h u1 p0")
		n.mustSetUp(p)
		n.expect()
		mounts, err := n.manager.Mounts(t.Context(), p, &p.Spec.Containers[0], nil)
		want := filepath.Join(dir, "pods/u1/volumes/kubernetes.io~csi/pv-h/mount")
		if err != nil || len(mounts) != 1 || mounts[0].HostPath != want || mounts[0].ReadOnly {
			t.Errorf("mounts %+v (%v), want %s", mounts, err, want)
		}
		if stats, err := n.Stats(t.Context(), "u1", "h"); err != nil || stats.Used != 7 {
			t.Errorf("stats %+v (%v)", stats, err)
		}
		if names, complete := n.InUse(); len(names) != 1 || names[0] != "name^h" || !complete {
			t.Errorf("in use %v, complete %v", names, complete)
		}
		n.mustTearDown("u1")
		n.expect("unpublish h u1", "unstage h", "drop name^h")
		n.empty()
		if _, err := n.manager.Mounts(t.Context(), p, &p.Spec.Containers[0], nil); err == nil {
			t.Error("a container gets a volume that isn't mounted")
		}
		n.mustTearDown("u1") // It drops what Mounts resolved.
		n.empty()
	})
}

// TestSharedHandle: two PersistentVolumes with one handle are one volume: it is staged once, and unstaged after the
// last publication is gone.
func TestSharedHandle(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, newTruth(), nil)
		n.mustSetUp(pod("u1", "h.a"))
		n.expect("mark name^h", "attached name^h", "stage h s0/dev/x", "publish h u1 p0")
		n.mustSetUp(pod("u2", "h.b"))
		n.expect("publish h u2 p0")
		n.mustTearDown("u1")
		n.expect("unpublish h u1")
		n.mustTearDown("u2")
		n.expect("unpublish h u2", "unstage h", "drop name^h")
		n.empty()
	})
}

// TestReadOnly: a read-only claim is read-only in containers, also after a restart.
func TestReadOnly(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		p := pod("u1", "h")
		p.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
		for range 2 {
			n := start(t, dir, d, nil)
			n.mustSetUp(p)
			mounts, err := n.manager.Mounts(t.Context(), p, &p.Spec.Containers[0], nil)
			if err != nil || len(mounts) != 1 || !mounts[0].ReadOnly {
				t.Errorf("mounts %+v (%v), want a read-only one", mounts, err)
			}
			n.stop()
		}
	})
}

// TestNoAPIServer: on a standalone node, a volume that must be attached is an error, and no call is made.
func TestNoAPIServer(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, func(c *Config) { c.Attachments = nil })
		if err := n.setUp(pod("u1", "h")); !errors.Is(err, ErrNoAttachments) {
			t.Errorf("error %v", err)
		}
		n.mustTearDown("u1")
		n.expect()
		n.empty()
	})
}

// TestExpand: an expansion is one of the volume's operations, and one without an answer is repeated before anything
// else.
func TestExpand(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, nil)
		if err := n.Expand(t.Context(), "u1", "h", "1Gi"); err == nil {
			t.Error("a volume that isn't set up is expanded")
		}
		n.mustSetUp(pod("u1", "h"))
		n.truth.called()
		if err := n.Expand(t.Context(), "u1", "h", "1Gi"); err != nil {
			t.Error(err)
		}
		d.answer(hang("expand"))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		if err := n.Expand(ctx, "u1", "h", "2Gi"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		n.expect("expand h u1 1Gi", "expand h u1 2Gi", "expand h u1 2Gi")
		d.answer(nil)
		if err := n.manager.TearDown(t.Context(), "u1"); err != nil {
			n.mustTearDown("u1")
		}
		n.expect("expand h u1 2Gi", "unpublish h u1", "unstage h", "drop name^h")
		n.empty()
	})
}

// TestSideBySide: ten volumes whose driver takes 200 ms for each call are set up in the time of one, and torn down so.
func TestSideBySide(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		d.answer(func(_ context.Context, call string) error {
			if strings.Contains(call, "stage") || strings.Contains(call, "publish") {
				time.Sleep(200 * time.Millisecond)
			}
			return nil
		})
		n := start(t, dir, d, nil)
		var names []string
		for i := range 10 {
			names = append(names, fmt.Sprint("h", i))
		}
		began := time.Now()
		n.mustSetUp(pod("u1", names...))
		if took := time.Since(began); took > 400*time.Millisecond {
			t.Errorf("ten volumes take %v, want 400 ms", took)
		}
		began = time.Now()
		n.mustTearDown("u1")
		if took := time.Since(began); took > 200*time.Millisecond {
			t.Errorf("the teardown of ten volumes takes %v, want 200 ms", took)
		}
		time.Sleep(time.Second)
		n.empty()
	})
}

// TestTwoVolumesOfOneClaim: two volumes of a pod with the same claim are one publication.
func TestTwoVolumesOfOneClaim(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		p := pod("u1", "h", "i")
		p.Spec.Volumes[1].PersistentVolumeClaim = p.Spec.Volumes[0].PersistentVolumeClaim
		for range 2 {
			n := start(t, dir, d, nil)
			n.mustSetUp(p)
			mounts, err := n.manager.Mounts(t.Context(), p, &p.Spec.Containers[0], nil)
			if err != nil || len(mounts) != 2 || mounts[0].HostPath != mounts[1].HostPath {
				t.Errorf("mounts %v (%v)", mounts, err)
			}
			n.stop()
		}
		n := start(t, dir, d, nil)
		n.truth.called()
		n.mustTearDown("u1")
		n.expect("unpublish h u1", "unstage h", "drop name^h")
		n.empty()
	})
}

// TestBounds: a claim with huge attributes, or one volume too many, is an error.
func TestBounds(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, func(c *Config) { c.MaxVolumes = 1 })
		n.mustSetUp(pod("u1", "h"))
		for i := range reserveFactor - 1 {
			n.mustSetUp(pod(fmt.Sprint("few", i), fmt.Sprint("few", i)))
		}
		if err := n.setUp(pod("u2", "i")); !errors.Is(err, ErrTooMany) {
			t.Errorf("error %v", err)
		}
		for i := range reserveFactor - 1 {
			n.mustTearDown(types.UID(fmt.Sprint("few", i)))
		}
		synctest.Wait()
		n.truth.called()
		for what, bad := range map[string]func(*Volume){
			"attributes":     func(v *Volume) { v.StageArgs = strings.Repeat("x", maxArgs+1) },
			"no text":        func(v *Volume) { v.PublishArgs = "\xff" },
			"no handle":      func(v *Volume) { v.Handle = "" },
			"no unique name": func(v *Volume) { v.UniqueName = "" },
			"plugin":         func(v *Volume) { v.Plugin = "kubernetes.io/empty-dir" },
			"name":           func(v *Volume) { v.Name = "../x" },
		} {
			n.cfg.Claims = resolver(func(pod *v1.Pod, spec *v1.Volume) (Volume, error) {
				v, err := n.claims.Resolve(t.Context(), pod, spec)
				bad(&v)
				return v, err
			})
			if err := n.setUp(pod("u3", "h")); err == nil {
				t.Errorf("%s: the volume is set up", what)
			}
		}
		n.expect()
	})
}

// resolver is a function as Claims.
type resolver func(*v1.Pod, *v1.Volume) (Volume, error)

// Resolve is part of Claims.
func (r resolver) Resolve(_ context.Context, pod *v1.Pod, spec *v1.Volume) (Volume, error) {
	return r(pod, spec)
}
