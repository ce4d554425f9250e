//go:build iscsiguest

package iscsi_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestKernelDeadTarget: a target whose packets are dropped delays its own volumes only, and each call ends with its context. When
// it answers again, everything goes, and nothing is lost.
func TestKernelDeadTarget(t *testing.T) {
	n := newNode(t)
	dead := newTarget(t, "dead", []string{portal2}, newDisk(t, "dead-a"), newDisk(t, "dead-b"))
	alive := newTarget(t, "alive", []string{portal1}, newDisk(t, "alive"))
	vol, next, well := n.volume("u1", pv("pv0", dead, 0)), n.volume("u2", pv("pv1", dead, 1)), n.volume("u3", pv("pv2", alive, 0))
	must(t, vol.up())
	vol.write("file", "data")
	// It has to be written before the unmount ends.
	must(t, os.WriteFile(filepath.Join(vol.publish.Dir, "late"), []byte("late"), 0o600))
	restore := drop(t, portal2)

	n.bounded("stage", func(ctx context.Context) error { return n.Stage(ctx, next.stage) })
	begin := time.Now()
	must(t, well.up())
	well.write("file", "data")
	must(t, well.down())
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("a volume of another target has taken %s", took)
	}
	// The bind mount of the pod needs no answer.
	ctx, cancel := limited()
	defer cancel()
	must(t, n.Unpublish(ctx, vol.publish))
	n.bounded("unstage", func(ctx context.Context) error { return n.Unstage(ctx, vol.stage) })

	restore()
	for _, v := range []*volume{next, vol} {
		eventually(t, 2*time.Minute, v.down)
	}
	n.same(n.begin)
	must(t, vol.up())
	vol.has("file", "data")
	vol.has("late", "late")
	must(t, vol.down())
	n.same(n.begin)
}

// bounded makes a call that the target must answer, and fails the test if it lasts longer than its context.
func (n *node) bounded(name string, call func(ctx context.Context) error) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), 5*time.Second)
	defer cancel()
	begin := time.Now()
	err := call(ctx)
	took := time.Since(begin)
	n.t.Logf("%s: %v, %s", name, err, took)
	if err == nil {
		n.t.Errorf("%s: the target has answered", name)
	}
	if took > 20*time.Second {
		n.t.Errorf("%s has taken %s", name, took)
	}
}

// TestKernelLostTarget: a target that stays away for so long that the kernel fails what wasn't written. Its session and disk go, while
// it is away or when it answers again, and its volume is usable then.
func TestKernelLostTarget(t *testing.T) {
	for name, forGood := range map[string]bool{"it comes back": false, "it never comes back": true} {
		t.Run(name, func(t *testing.T) { lostTarget(t, forGood) })
	}
}

func lostTarget(t *testing.T, forGood bool) {
	n := newNode(t)
	g := newTarget(t, "lost", []string{portal2}, newDisk(t, "lost"))
	vol := n.volume("u1", pv("pv", g, 0))
	must(t, vol.up())
	vol.write("file", "data")
	limits, err := filepath.Glob("/sys/class/iscsi_session/session*/recovery_tmo")
	must(t, err)
	for _, limit := range limits {
		set(t, limit, "5")
	}
	restore := drop(t, portal2)
	device := disk0(t)
	// The write fails when the kernel has given up.
	eventually(t, time.Minute, func() error {
		f, err := os.OpenFile(filepath.Join(vol.publish.Dir, "late"), os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.WriteString("late")
			err = errors.Join(err, f.Sync(), f.Close())
		}
		if err == nil {
			return errors.New("the target has answered")
		}
		return nil
	})
	state, err := os.ReadFile(filepath.Join("/sys/class/block", filepath.Base(device), "device/state"))
	t.Logf("the disk is %s %v", bytes.TrimSpace(state), err)
	if forGood {
		eventually(t, 2*time.Minute, vol.down)
		n.same(n.begin)
		restore()
	} else {
		restore()
		eventually(t, 2*time.Minute, vol.down)
		n.same(n.begin)
	}
	must(t, vol.up())
	vol.has("file", "data")
	must(t, vol.down())
	n.same(n.begin)
}

// TestKernelDisabledTarget: a target that refuses logins, and ends its session, is an error. When it is enabled again the volume is
// usable, and goes.
func TestKernelDisabledTarget(t *testing.T) {
	n := newNode(t)
	g := newTarget(t, "disabled", []string{portal2}, newDisk(t, "disabled"))
	g.enable(false)
	vol := n.volume("u1", pv("pv", g, 0))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	begin := time.Now()
	err := n.Stage(ctx, vol.stage)
	cancel()
	t.Logf("stage: %v, %s", err, time.Since(begin))
	if err == nil || time.Since(begin) > 30*time.Second {
		t.Errorf("stage: %v, %s", err, time.Since(begin))
	}
	eventually(t, time.Minute, vol.down)
	n.same(n.begin)

	g.enable(true)
	must(t, vol.up())
	vol.write("file", "data")
	g.enable(false)
	g.enable(true)
	eventually(t, time.Minute, func() error {
		return os.WriteFile(filepath.Join(vol.publish.Dir, "again"), []byte("data"), 0o600)
	})
	must(t, vol.down())
	n.same(n.begin)
}
