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

// sweep ends the sessions that no volume has, as soon as nothing on the machine uses them, and finds out what has become of logins without
// an answer, until ctx ends.
func (b *Backend) sweep(ctx context.Context) {
	ticker := time.NewTicker(b.cfg.sweep)
	defer ticker.Stop()
	b.sweepOnce(ctx)
	for {
		settled := time.NewTimer(b.settles(b.cfg.sweep))
		select {
		case <-ctx.Done():
			settled.Stop()
			return
		case <-ticker.C:
			b.sweepOnce(ctx)
		case <-b.unsettles:
		case <-settled.C:
			b.settleAll(ctx)
		}
		settled.Stop()
	}
}

// settleAll finds out what has become of the logins without an answer that have certainly ended.
func (b *Backend) settleAll(ctx context.Context) {
	all, _ := b.records.list()
	for i := range all {
		s := &all[i]
		if s.Boot != b.cfg.Boot || !s.Begun || b.settled(s.Session) != nil || ctx.Err() != nil {
			continue
		}
		if err := b.settle(ctx, s); err != nil && ctx.Err() == nil {
			b.cfg.Log.Warn("what a login without an answer has made isn't known yet", "session", s.String(), "error", err)
		}
	}
}

// settle records the session that a login without an answer has made, or that there is none: another program may make one later, which
// isn't podexecd's.
func (b *Backend) settle(ctx context.Context, s *session) error {
	ctx, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	name, k := key(s.Session), s.sweepKey()
	release, err := b.locks.take(ctx, s.sweepLocks())
	if err != nil {
		return err
	}
	defer release()
	rec, has := b.records.get(name)
	if !has || rec.Boot != b.cfg.Boot || !rec.Begun || b.settled(name) != nil {
		return nil
	}
	a, err := b.do(ctx, k, initiator.Job{Look: &initiator.Look{Sessions: []initiator.Session{name}}})
	if err == nil && a.Seen == nil {
		err = errNothing
	}
	if err != nil {
		b.unsettle([]initiator.Session{name}) // It is looked for again.
		return err
	}
	rec.Begun = false
	for _, live := range a.Seen.Live {
		if key(live) == name {
			rec.SID = live.SID
			return b.records.put(rec)
		}
	}
	rec.Users = nil
	if err := b.records.put(rec); err != nil {
		return err
	}
	return b.leave(ctx, k, name)
}

// sweepKey names the session for helper processes, and sweepLocks are its locks.
func (s *session) sweepKey() record.Key {
	return record.Key{Driver: PluginName, Handle: s.Portal + ":" + s.Target}
}

func (s *session) sweepLocks() []initiator.Session {
	locked := []initiator.Session{key(s.Session)}
	if s.Clone != nil {
		locked = append(locked, ifaceLock(s.Iface))
	}
	return locked
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
	release, err := b.locks.take(ctx, s.sweepLocks())
	if err != nil {
		return err
	}
	defer release()
	return b.leave(ctx, s.sweepKey(), key(s.Session))
}
