package iscsi

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign/initiator"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
)

// waits checks that a call waits for a lock, and has done nothing.
func waits(t *testing.T, call func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := call(ctx); storage.OutcomeOf(err) != storage.NotSent || !strings.Contains(err.Error(), "another volume's operation") {
		t.Errorf("%v (outcome %d)", err, storage.OutcomeOf(err))
	}
}

// TestMountPoint: while a volume is unmounted, none is attached that has the same mount point, and the other way round.
func TestMountPoint(t *testing.T) {
	b := newBench(t, 1)
	v := b.persistent("u1", pv(1), false)
	other := b.persistent("u2", pv(1, func(s *v1.ISCSIPersistentVolumeSource) { s.FSType = "ext3" }), false)
	var args stageArgs
	must(t, decode(v.Staging.Args, &args))
	release, err := b.locks.take(t.Context(), []initiator.Session{args.mountPoint()})
	must(t, err)
	waits(t, func(ctx context.Context) error { return b.Stage(ctx, v.Staging) })
	waits(t, func(ctx context.Context) error { return b.Unstage(ctx, other.Staging) })
	release()
	b.up(v)
	must(t, b.Unstage(t.Context(), other.Staging))
	must(t, b.Publish(t.Context(), v.pub))
	b.down(v)
	b.nothing()
}

// TestIfaceLock: an iface of podexecd's isn't deleted while a volume of another target begins to use it.
func TestIfaceLock(t *testing.T) {
	b := newBench(t, 1)
	of := func(iqn string) func(*v1.ISCSIPersistentVolumeSource) {
		return func(s *v1.ISCSIPersistentVolumeSource) {
			s.IQN, s.InitiatorName = iqn, ptr.To("iqn.2026-01.com.example:client")
		}
	}
	v, other := b.persistent("u1", pv(1, of(target)), false), b.persistent("u2", pv(1, of(target+"2")), false)
	var args stageArgs
	must(t, decode(v.Staging.Args, &args))
	release, err := b.locks.take(t.Context(), args.locked())
	must(t, err)
	waits(t, func(ctx context.Context) error { return b.Stage(ctx, other.Staging) })
	release()
	b.up(v)
	b.down(v)
	b.nothing()
}
