package iscsi

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/foreign/initiator"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/podmount"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
)

const (
	// defaultAttach is how long an attachment may take if the call has no limit.
	defaultAttach = 2 * time.Minute
	// attachReserve is what the last attempt may take beyond the budget: a login, a scan, and the wait for a multipath device.
	attachReserve = 75 * time.Second
	minBudget     = 5 * time.Second
	// multipathWait is upstream's wait for the device of several paths.
	multipathWait = 10 * time.Second
)

// Stage is part of storage.Backend. It attaches the disk, and mounts it. If the mount takes longer than ctx, the next Stage waits for
// the same mount.
func (b *Backend) Stage(ctx context.Context, s storage.Staging) error {
	var args stageArgs
	if err := decode(s.Args, &args); err != nil {
		return err
	}
	// Another volume may have the same mount point.
	if !args.Device && b.mounts.Has(s.Handle) {
		// Its result is that of the call that began it.
		return b.mounts.Do(ctx, s.Handle, func(context.Context) error { return nil })
	}
	at, err := b.attach(ctx, s.Key, &args.disk)
	if err != nil {
		return err
	}
	if args.Device {
		return nil
	}
	return b.mounts.Do(ctx, s.Handle, func(ctx context.Context) error { return b.mount(ctx, s.Key, &args, at) })
}

// attach logs in to the volume's sessions, and finds its disk. What it has made is recorded, and if there is no disk it is undone.
func (b *Backend) attach(ctx context.Context, k record.Key, d *disk) (*initiator.Disk, error) {
	var secret initiator.CHAP
	if d.Secret != nil {
		var err error
		if secret, err = b.secret(ctx, d.Secret); err != nil {
			return nil, err
		}
	}
	if err := b.resolve(ctx, k, d); err != nil {
		return nil, err
	}
	release, err := b.locks.take(ctx, b.locked(k, d))
	if err != nil {
		return nil, notSent(err)
	}
	defer release()
	var begun []initiator.Session
	for _, s := range d.sessions() {
		if rec, _ := b.records.get(s); rec.Boot == b.cfg.Boot && rec.Begun && b.settled(s) != nil {
			begun = append(begun, s)
		}
	}
	if err := b.claim(ctx, k, d); err != nil {
		return nil, err
	}
	at, err := b.login(ctx, k, d, secret, begun)
	if err == nil {
		return at, nil
	}
	if _, abandoned := errors.AsType[*foreign.AbandonedError](err); abandoned {
		return nil, err
	}
	if left := b.detach(ctx, k, d); left != nil {
		return nil, uncertain(errors.Join(err, left))
	}
	return nil, &storage.Error{Outcome: storage.Final, Err: err}
}

// secret returns the settings of CHAP.
func (b *Backend) secret(ctx context.Context, ref *secretRef) (initiator.CHAP, error) {
	if b.cfg.Secrets == nil {
		return nil, unrepeatable(errors.New("chapAuthSession needs a Secret, and this node has no API server"))
	}
	data, err := b.cfg.Secrets.Secret(ctx, ref.Namespace, ref.Name)
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
		// The pod, or its namespace, may be gone.
		return nil, unrepeatable(err)
	case err != nil:
		return nil, notSent(err)
	}
	c, err := chap(data)
	if err != nil {
		return nil, unrepeatable(fmt.Errorf("secret %s/%s: %w", ref.Namespace, ref.Name, err))
	}
	return c, nil
}

// claim records that the volume uses its sessions, if nothing is against it. Its errors have an outcome.
func (b *Backend) claim(ctx context.Context, k record.Key, d *disk) error {
	for _, s := range d.sessions() {
		if err := b.records.usable(s); err != nil {
			return notSent(err) // Nor could it be undone.
		}
	}
	all, complete := b.records.list()
	own := map[initiator.Session]session{}
	for _, rec := range all {
		own[key(rec.Session)] = rec
	}
	if err := conflict(all, b.cfg.Boot, k.Handle, d); err != nil {
		return unrepeatable(err)
	}
	look := &initiator.Look{Sessions: d.sessions()}
	if d.Clone != nil {
		look.Iface = d.Iface
	}
	a, err := b.do(ctx, k, initiator.Job{Look: look})
	if err == nil && a.Seen == nil {
		err = errNothing
	}
	if err != nil {
		return notSent(fmt.Errorf("look at the iSCSI sessions of this machine: %w", err))
	}
	if err := b.dropNamed(ctx, k, d, a.Seen.Live); err != nil {
		return err
	}
	ifaceOwn := complete && slices.ContainsFunc(all, func(s session) bool { return s.Iface == d.Iface && s.Clone != nil })
	if err := checkOwn(a.Seen, own, b.cfg.Boot, d, ifaceOwn); err != nil {
		return unrepeatable(err)
	}
	if err := b.stays(a.Seen.Live); err != nil {
		return notSent(err)
	}
	// Another volume may have come meanwhile, with other sessions of the same disk.
	if err := b.records.claim(k.Handle, d, a.Seen.Live); err != nil {
		return err
	}
	for _, s := range d.sessions() {
		b.forgetEnding(s)
	}
	return nil
}

// login has a helper make the sessions, and records the disk. An earlier login may still make those of begun.
func (b *Backend) login(ctx context.Context, k record.Key, d *disk, secret initiator.CHAP, begun []initiator.Session) (*initiator.Disk, error) {
	job := &initiator.Attach{Begun: begun, LUN: d.LUN, Clone: d.Clone, CHAP: secret, Budget: budget(ctx)}
	if len(d.Portals) > 1 {
		job.Wait = b.cfg.multipath
	}
	for _, s := range d.sessions() {
		rec, _ := b.records.get(s)
		job.Sessions = append(job.Sessions, rec.Session)
	}
	a, err := b.do(ctx, k, initiator.Job{Attach: job})
	if err == nil && a.Attached == nil {
		err = errNothing
	}
	if err != nil {
		if _, answered := errors.AsType[*foreign.Error](err); !answered && !foreign.IsUnchanged(err) {
			b.unsettle(d.sessions())
		}
		return nil, podmount.Answered(err)
	}
	at := a.Attached
	b.unsettle(at.Unsettled)
	for _, s := range begun {
		// A login that failed isn't the end of the earlier one.
		if !slices.Contains(at.Unsettled, s) && b.settled(s) != nil {
			at.Unsettled = append(at.Unsettled, s)
		}
	}
	if err := b.records.loggedIn(d.sessions(), at.Sessions, at.Unsettled); err != nil {
		return nil, err
	}
	if at.Error != "" {
		return nil, podmount.Answered(&foreign.Error{Text: at.Error})
	}
	for _, why := range at.Failed {
		b.cfg.Log.Warn("a path of an iSCSI disk can't be used", "volume", b.VolumeName(k), "error", why)
	}
	if err := b.records.attached(k.Handle, d, at); err != nil {
		return nil, err
	}
	for _, s := range d.sessions() {
		// The place of a session that isn't made is free for other volumes and programs.
		if rec, has := b.records.get(s); has && !rec.isMade(b.cfg.Boot) {
			if err := b.leave(ctx, k, s); err != nil {
				b.cfg.Log.Warn("what open-iscsi has of an iSCSI session that wasn't made stays for now", "session", s.String(), "error", err)
			}
		}
	}
	return b.disk(k, d.LUN)
}

// budget is how long it may take to try sessions.
func budget(ctx context.Context) time.Duration {
	left := defaultAttach
	if end, has := ctx.Deadline(); has {
		left = time.Until(end)
	}
	return max(minBudget, left-attachReserve)
}

// disk returns the recorded disk of a volume.
func (b *Backend) disk(k record.Key, lun int) (*initiator.Disk, error) {
	at := &initiator.Disk{Host: b.cfg.Host, LUN: lun}
	for _, rec := range b.records.of(k.Handle) {
		u := rec.user(k.Handle)
		if rec.Boot != b.cfg.Boot || rec.SID == "" || u.Name == "" {
			continue
		}
		at.Sessions = append(at.Sessions, rec.Session)
		at.Name, at.Number = u.Name, u.Number
	}
	if at.Name == "" {
		return nil, fmt.Errorf("the disk of volume %s isn't attached", b.VolumeName(k))
	}
	return at, nil
}

// mount mounts the disk. If nothing is mounted then, it is detached.
func (b *Backend) mount(ctx context.Context, k record.Key, args *stageArgs, at *initiator.Disk) error {
	base, name := args.staged()
	m := foreign.Mount{Disk: at, Target: filepath.Join(base, name), Type: args.FSType, Options: args.Options}
	if args.ReadOnly {
		m.Options = append(slices.Clone(m.Options), "ro")
	}
	err := podmount.Make(base, name)
	if err != nil {
		err = &storage.Error{Outcome: storage.Final, Err: err}
	} else {
		_, err = b.cfg.Helpers.Do(ctx, b.VolumeName(k), foreign.Job{Mount: &m})
		if err == nil {
			return nil
		}
		err = podmount.Answered(fmt.Errorf("iscsi: failed to mount iscsi volume %s [%s] to %s, error %w", at.Path(), args.FSType, m.Target, err))
	}
	if out := storage.OutcomeOf(err); out != storage.Final && out != storage.NotSent {
		return err
	}
	// The mount may take hours, and this has the locks of its sessions.
	ctx, cancel := context.WithTimeout(ctx, defaultAttach)
	defer cancel()
	if left := b.unattach(ctx, k, args); left != nil {
		return uncertain(errors.Join(err, left))
	}
	return &storage.Error{Outcome: storage.Final, Err: err}
}

// unattach detaches a disk that isn't mounted, and removes its mount point.
func (b *Backend) unattach(ctx context.Context, k record.Key, args *stageArgs) error {
	b.recorded(k, &args.disk)
	release, err := b.locks.take(ctx, b.locked(k, &args.disk))
	if err != nil {
		return err
	}
	defer release()
	if err := b.detach(ctx, k, &args.disk); err != nil {
		return err
	}
	if b.isOthers(k, &args.disk) {
		return nil
	}
	base, name := args.staged()
	if err := podmount.Remove(base, name); err != nil {
		return err
	}
	if args.Clone != nil {
		// No other volume has this iface. What is left is the remains of an unmount that failed.
		_ = podmount.Remove(base, filepath.Dir(name))
	}
	return nil
}
