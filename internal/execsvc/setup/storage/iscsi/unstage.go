package iscsi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/foreign/initiator"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/podmount"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
)

// Unstage is part of storage.Backend. It waits for a mount that hasn't ended.
func (b *Backend) Unstage(ctx context.Context, s storage.Staging) error {
	var args stageArgs
	if err := decode(s.Args, &args); err != nil {
		return err
	}
	target := args.target()
	if !args.Device {
		if err := b.mounts.Wait(ctx, s.Handle); err != nil {
			return notSent(err)
		}
	}
	if !args.Device {
		if err := b.unmount(ctx, s.Key, &args); err != nil {
			return err
		}
	}
	if err := b.unattach(ctx, s.Key, &args); err != nil {
		if _, has := errors.AsType[*storage.Error](err); has {
			return err
		}
		return uncertain(fmt.Errorf("iscsi: failed to detach disk: %s: %w", target, err))
	}
	return nil
}

// unmount unmounts the disk, unless the mount is another volume's. None is attached there meanwhile: its mount would be removed.
func (b *Backend) unmount(ctx context.Context, k record.Key, args *stageArgs) error {
	release, err := b.locks.take(ctx, []initiator.Session{args.mountPoint()})
	if err != nil {
		return notSent(err)
	}
	defer release()
	if b.isOthers(k, &args.disk) {
		return nil
	}
	return podmount.Unmount(ctx, b.cfg.Helpers, b.VolumeName(k), args.target())
}

// isOthers reports whether the place of the volume's mount is that of another volume, which has the disk.
func (b *Backend) isOthers(k record.Key, d *disk) bool {
	all, _ := b.records.list()
	own, others := false, false
	for i := range all {
		s := &all[i]
		if s.Boot != b.cfg.Boot || s.Target != d.Target || s.Iface != d.Iface {
			continue
		}
		for _, u := range s.Users {
			if u.LUN == d.LUN && s.first(&u) == d.Portals[0] {
				own, others = own || u.Handle == k.Handle, others || u.Handle != k.Handle
			}
		}
	}
	return others && !own
}

// detach removes the volume's disk from the machine, and ends the sessions that no volume uses any more. The caller has their locks.
func (b *Backend) detach(ctx context.Context, k record.Key, d *disk) error {
	var used []initiator.Session
	sessions := b.recordedToo(k, d.sessions())
	for _, s := range sessions {
		if err := b.records.usable(s); err != nil {
			return err
		}
		if rec, has := b.records.get(s); has && rec.isMade(b.cfg.Boot) && rec.user(k.Handle) != nil {
			used = append(used, rec.Session)
		}
	}
	if len(used) > 0 {
		if _, err := b.do(ctx, k, initiator.Job{Detach: &initiator.Detach{Sessions: used, LUN: d.LUN}}); err != nil {
			return podmount.Answered(err)
		}
	}
	// What is wrong with one session keeps no other one. Those that there are come first: open-iscsi may take one for another's.
	slices.SortStableFunc(sessions, func(x, y initiator.Session) int {
		return cmp.Compare(b.rank(x), b.rank(y))
	})
	var errs []error
	for _, s := range sessions {
		errs = append(errs, b.leave(ctx, k, s))
	}
	return errors.Join(errs...)
}

func (b *Backend) rank(s initiator.Session) int {
	if rec, _ := b.records.get(s); rec.SID != "" && rec.isMade(b.cfg.Boot) {
		return 0
	}
	return 1
}

// leave ends the volume's use of a session, and the session if that was the last one.
func (b *Backend) leave(ctx context.Context, k record.Key, s initiator.Session) error {
	rec, has := b.records.get(s)
	if !has {
		return nil
	}
	was := rec.user(k.Handle) != nil
	if was {
		rec.Users = slices.DeleteFunc(rec.Users, func(u user) bool { return u.Handle == k.Handle })
		if len(rec.Users) > 0 {
			return b.records.put(rec)
		}
	}
	if len(rec.Users) > 0 {
		return nil
	}
	stale := !rec.isMade(b.cfg.Boot)
	if !stale {
		// A session that appears later would have no record.
		if err := b.settled(s); err != nil {
			return err
		}
	}
	// An earlier logout may still go on, whatever becomes of this one.
	ending := rec.Ending && b.stays([]initiator.Session{s}) != nil
	job := &initiator.Logout{Session: rec.Session, Stale: stale, Begun: !stale && rec.Begun, Iface: rec.Clone != nil && b.isLast(s)}
	if was || rec.Ending == stale {
		rec.Ending = !stale
		if err := b.records.put(rec); err != nil {
			return err
		}
	}
	a, err := b.do(ctx, k, initiator.Job{Logout: job})
	unsent := isUnsent(err)
	switch {
	case err == nil && a.LoggedOut == nil:
		err = errNothing
	case err == nil && a.LoggedOut.Unsettled != "":
		err = &foreign.Error{Text: a.LoggedOut.Unsettled}
	}
	switch {
	case err != nil && !stale && unsent:
		// Without a logout, the session stays: other volumes can have it.
		rec.Ending = ending
		return podmount.Answered(errors.Join(err, b.records.put(rec)))
	case err != nil && !stale:
		b.noteEnding(s)
		return podmount.Answered(err)
	case err != nil && unsent:
		// There is no session, and no disk: the sweep deletes what open-iscsi has of it.
		b.cfg.Log.Warn("what open-iscsi has of an iSCSI session that there isn't stays for now", "session", s.String(), "error", err)
		return nil
	case err != nil:
		return podmount.Answered(err)
	}
	if a.LoggedOut.Kept != "" {
		b.cfg.Log.Warn("something of an iSCSI session that has ended stays", "session", s.String(), "reason", a.LoggedOut.Kept)
	}
	if a.LoggedOut.Left != "" {
		b.cfg.Log.Warn("an iSCSI session isn't ended, as the machine uses it", "session", s.String(), "reason", a.LoggedOut.Left)
		// The next volume of the session, or the end of its use, ends it. Of one that isn't podexecd's, open-iscsi's record of podexecd's
		// is deleted when it is gone.
		rec.Ending = ending && !a.LoggedOut.NotOwn
		if a.LoggedOut.NotOwn {
			rec.SID, rec.Begun = "", false
			b.forgetEnding(s)
		}
		return b.records.put(rec)
	}
	b.forgetEnding(s)
	return b.records.remove(s)
}

// isUnsent reports whether the error of a logout's helper shows that iscsid wasn't told to end the session, or has done it.
func isUnsent(err error) bool {
	_, answered := errors.AsType[*foreign.Error](err)
	return answered || foreign.IsUnchanged(err)
}

// isLast reports whether no other session has the iface.
func (b *Backend) isLast(s initiator.Session) bool {
	all, complete := b.records.list()
	return complete && !slices.ContainsFunc(all, func(o session) bool { return o.Iface == s.Iface && key(o.Session) != key(s) })
}
