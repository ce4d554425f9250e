package storage

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
	"github.com/podstream/podstream/internal/execsvc/setup/volume"
)

// TestContextWhileUnpublishFails: a pod with another SELinux context isn't published while the unpublish for the pod before is in its pause.
func TestContextWhileUnpublishFails(t *testing.T) {
	s := newState(record.Key{Driver: "d", Handle: "h"})
	s.Traits = record.Traits{Backend: "b", Stages: true, SELinuxContext: "c1"}
	s.Stage = record.Call{Phase: record.Done, Args: "a"}
	s.Publications = []record.Publication{{
		Target: record.Target{UID: "u1", Plugin: "p", Name: "n"}, Call: record.Call{Phase: record.Undoing, Args: "p"}, Dir: "/d",
	}}
	s.setWant(record.Target{UID: "u2", Plugin: "p", Name: "n"}, want{volume: Volume{
		Key: s.Key, OneContext: true, Traits: record.Traits{Backend: "b", SELinuxContext: "c2"}, StageArgs: "a",
	}})
	for _, op := range candidates(&s) {
		if op.kind == publish {
			t.Errorf("%v", op)
		}
	}
}

// TestAttachmentAfterDrop: once a volume may have left volumesInUse, its attachment isn't believed.
func TestAttachmentAfterDrop(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, nil)
		d.answer(func(_ context.Context, call string) error {
			if strings.HasPrefix(call, "drop") || strings.HasPrefix(call, "stage") {
				return &Error{NotSent, errors.New("no answer")}
			}
			return nil
		})
		if err := n.setUp(pod("u1", "h")); err == nil {
			t.Error("it is set up")
		}
		n.mustTearDown("u1")
		synctest.Wait()
		d.called()
		d.answer(nil)
		n.mustSetUp(pod("u2", "h"))
		if calls := strings.Join(d.called(), ", "); !strings.Contains(calls, "attached name^h, stage h") {
			t.Errorf("it is staged with the context of an earlier attachment: %s", calls)
		}
		n.mustTearDown("u2")
		time.Sleep(10 * time.Minute)
		n.empty()
	})
}

// TestFirstCallUnrepeatableWithoutPod: a first stage that can't be made, when no pod wants the volume any more, has made nothing.
func TestFirstCallUnrepeatableWithoutPod(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, nil)
		d.answer(func(_ context.Context, call string) error {
			if strings.HasPrefix(call, "stage") {
				time.Sleep(time.Minute)
				return &Error{Unrepeatable, errors.New("no")}
			}
			return nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := n.manager.SetUp(ctx, volume.Request{Pod: pod("u1", "h")}); err == nil {
			t.Error("it is set up")
		}
		n.mustTearDown("u1")
		time.Sleep(time.Hour)
		for _, call := range d.called() {
			if strings.HasPrefix(call, "unstage") {
				t.Error(call)
			}
		}
		n.empty()
	})
}

// TestRecoveredUnmounted: after a restart, a volume that isn't mounted is marked in volumesInUse, and attached, again.
func TestRecoveredUnmounted(t *testing.T) {
	v := record.Volume{Boot: "b", Use: record.InUse, Attached: true, Context: map[string]string{"device": "old"}}
	if s := recovered(&v, "b"); s.Attached || s.Context != nil || s.Use != record.AddingUse {
		t.Errorf("%+v", s.Volume)
	}
}

// TestRebootConfirmsUse: after a reboot, volumesInUse is written again before the volume is staged again: the Node may be another one.
func TestRebootConfirmsUse(t *testing.T) {
	v := record.Volume{
		Boot: "b1", Traits: record.Traits{Backend: "b", Stages: true, Attaches: true, UniqueName: "n"}, Use: record.InUse, Attached: true,
		Stage: record.Call{Phase: record.Done, Args: "s"},
	}
	s := recovered(&v, "b2")
	s.setWant(record.Target{UID: "u", Plugin: "p", Name: "n"}, want{volume: Volume{Traits: v.Traits, StageArgs: "s"}})
	op := candidates(&s)[0]
	was := call(&s, op)
	begin(&s, op)
	finish(&s, op, was, succeeded, nil)
	if op.kind != unstage || s.Use != record.AddingUse || candidates(&s)[0].kind != markInUse {
		t.Errorf("%v, then %q and %v", op, s.Use, candidates(&s))
	}
}

// oneName resolves all claims to a PersistentVolume of one name.
type oneName struct{ *claims }

// Resolve is part of Claims.
func (c oneName) Resolve(ctx context.Context, p *v1.Pod, spec *v1.Volume) (Volume, error) {
	v, err := c.claims.Resolve(ctx, p, spec)
	v.Name = "pv"
	return v, err
}

// TestOtherHandle: a pod's PersistentVolume that gets another handle, by one of its name, while the first may be mounted isn't lost sight of.
func TestOtherHandle(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, func(c *Config) { c.Claims = oneName{&claims{}} })
		d.answer(func(_ context.Context, call string) error {
			if strings.HasPrefix(call, "publish h ") {
				return &Error{Uncertain, errors.New("no")}
			}
			return nil
		})
		p := pod("u1", "h")
		if err := n.setUp(p); err == nil {
			t.Error("it is set up")
		}
		p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "h2"
		if err := n.setUp(p); !errors.Is(err, ErrBusy) {
			t.Errorf("error %v", err)
		}
		d.answer(nil)
		n.mustTearDown("u1")
		n.empty()
	})
}
