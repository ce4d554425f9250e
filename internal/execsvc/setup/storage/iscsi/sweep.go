package iscsi

import (
	"context"
	"time"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign/initiator"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
)

const (
	// sweepInterval is how often sessions are looked at that no volume has and that couldn't be ended.
	sweepInterval = 10 * time.Minute
	// sweepLimit bounds the time for one of them, and maxSweep their number at a time.
	sweepLimit = 75 * time.Second
	maxSweep   = 64
)

// sweep ends the sessions that no volume has, as soon as nothing on the machine uses them, until ctx ends.
func (b *Backend) sweep(ctx context.Context) {
	ticker := time.NewTicker(b.cfg.sweep)
	defer ticker.Stop()
	for {
		b.sweepOnce(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (b *Backend) sweepOnce(ctx context.Context) {
	all, _ := b.records.list() // In no order: each one is looked at in the end.
	seen := 0
	for i := range all {
		if len(all[i].Users) > 0 {
			continue
		}
		if seen++; seen > maxSweep || ctx.Err() != nil {
			return
		}
		if err := b.endUnused(ctx, &all[i]); err != nil && ctx.Err() == nil {
			b.cfg.Log.Warn("an iSCSI session that no volume has can't be ended yet", "session", all[i].String(), "error", err)
		}
	}
}

// endUnused ends a session that no volume has. One that has got a volume meanwhile is left.
func (b *Backend) endUnused(ctx context.Context, s *session) error {
	ctx, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	name := key(s.Session)
	locked := []initiator.Session{name}
	if s.Clone != nil {
		locked = append(locked, ifaceLock(s.Iface))
	}
	release, err := b.locks.take(ctx, locked)
	if err != nil {
		return err
	}
	defer release()
	return b.leave(ctx, record.Key{Driver: PluginName, Handle: s.Portal + ":" + s.Target}, name)
}
