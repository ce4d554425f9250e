package local

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/podmount"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
	"github.com/podstream/podstream/internal/execsvc/setup/volume/ownership"
)

var (
	_ storage.Backend  = (*Backend)(nil)
	_ storage.Devices  = (*Backend)(nil)
	_ storage.Relabels = (*Backend)(nil)

	// errKind is upstream's error of a path that is something else.
	errKind = errors.New("only directory and block device are supported")
)

// mountLimit is the limit of one mount of a block device, which may check its file system first: that takes hours on a large one.
const mountLimit = 12 * time.Hour

// Backend mounts local volumes.
type Backend struct {
	helpers *foreign.Helpers
	groups  *foreign.Groups
	// mounts mounts block devices, by their mount points. A check or a format that is killed may damage the file system.
	mounts *foreign.Lasting
}

// New returns a Backend. Close ends its goroutines.
func New(helpers *foreign.Helpers) *Backend {
	return &Backend{
		helpers: helpers, groups: foreign.NewGroups(helpers.SetGroup),
		mounts: foreign.NewLasting(mountLimit, "local: the device is still being checked, formatted or mounted"),
	}
}

// Close ends the changes of groups, and the mounts of devices. No other method may be called after it.
func (b *Backend) Close() {
	b.groups.Close()
	b.mounts.Close()
}

// MountPoint is part of storage.Backend.
func (*Backend) MountPoint(dir string) string { return dir }

// Relabels is part of storage.Relabels. The kubelet has local volumes labelled too, but not hostPath and nfs.
func (*Backend) Relabels(storage.Publishing) bool { return true }

// VolumeName is part of storage.Backend.
func (*Backend) VolumeName(k record.Key) string { return k.Driver + "^" + k.Handle }

// kind returns what the volume's path leads to, and the number of a block device. If that is gone, such as a disk that was removed, no call for it may ever be possible again.
func (b *Backend) kind(ctx context.Context, volume, path string) (kind foreign.Kind, number string, err error) {
	a, err := b.helpers.Do(ctx, volume, foreign.Job{Look: path})
	switch {
	case isGone(err):
		return "", "", unrepeatable(err)
	case err != nil:
		return "", "", notSent(err)
	case a.Kind != foreign.Directory && a.Kind != foreign.BlockDevice:
		return "", "", unrepeatable(fmt.Errorf("%s: %w", path, errKind))
	}
	return a.Kind, a.Number, nil
}

// isGone reports whether an error says that there is no such file or device, or that its file system is dead. ENODEV is among those of
// IsCorrupted.
func isGone(err error) bool {
	return foreign.IsCorrupted(err) || slices.ContainsFunc([]error{unix.ENOENT, unix.ENOTDIR, unix.ENXIO}, func(gone error) bool { return errors.Is(err, gone) })
}

// Stage is part of storage.Backend. It mounts a block device. If that takes longer than ctx, the next Stage waits for the same mount.
func (b *Backend) Stage(ctx context.Context, s storage.Staging) error {
	var args stageArgs
	if err := decode(s.Args, &args); err != nil {
		return err
	}
	if args.Device {
		return b.isDevice(ctx, s.Key, args.Path)
	}
	base, at := args.staged(s.Key)
	target := filepath.Join(base, at)
	if !b.mounts.Has(target) {
		kind, _, err := b.kind(ctx, b.VolumeName(s.Key), args.Path)
		if err != nil || kind == foreign.Directory {
			return err
		}
	}
	// Its own errors have an outcome. That of a mount that hasn't ended is Unanswered: so it is staged again until there is an answer.
	return b.mounts.Do(ctx, target, func(ctx context.Context) error { return b.mount(ctx, s.Key, &args) })
}

// mount mounts a block device, with a check or a format of its file system.
func (b *Backend) mount(ctx context.Context, k record.Key, args *stageArgs) error {
	base, at := args.staged(k)
	if err := podmount.Make(base, at); err != nil {
		return notSent(err)
	}
	m := foreign.Mount{Source: args.Path, Target: filepath.Join(base, at), Type: args.FSType, Options: args.Options, Format: true}
	if args.ReadOnly {
		m.Options = append(slices.Clone(m.Options), "ro")
	}
	_, err := b.helpers.Do(ctx, b.VolumeName(k), foreign.Job{Mount: &m})
	if err == nil {
		return nil
	}
	err = podmount.Answered(fmt.Errorf("local: failed to mount device %s at %s (fstype: %s), error %w", m.Source, m.Target, m.Type, err))
	if storage.OutcomeOf(err) == storage.Final {
		// Nothing is mounted, and nothing of this volume is left.
		_ = podmount.Remove(base, at)
	}
	return err
}

// Unstage is part of storage.Backend. It waits for a mount that hasn't ended.
func (b *Backend) Unstage(ctx context.Context, s storage.Staging) error {
	var args stageArgs
	if err := decode(s.Args, &args); err != nil {
		return err
	}
	base, at := args.staged(s.Key)
	if err := b.mounts.Wait(ctx, filepath.Join(base, at)); err != nil {
		return notSent(err)
	}
	if !args.Device {
		if err := podmount.Unmount(ctx, b.helpers, b.VolumeName(s.Key), filepath.Join(base, at)); err != nil {
			return err
		}
	}
	if err := podmount.Remove(base, at); err != nil {
		return &storage.Error{Outcome: storage.Uncertain, Err: err}
	}
	return nil
}

// Publish is part of storage.Backend.
func (b *Backend) Publish(ctx context.Context, p storage.Publishing) error {
	var args publishArgs
	if err := decode(p.Args, &args); err != nil {
		return err
	}
	stage, err := checkStage(&p, &args)
	if err != nil {
		return err
	}
	if p.Device {
		return b.publishDevice(ctx, &p, &args)
	}
	name, source := b.VolumeName(p.Key), args.Path
	kind, number, err := b.kind(ctx, name, args.Path)
	if err != nil {
		return err
	}
	if kind == foreign.BlockDevice {
		if stage.Path != args.Path {
			return errReplaced(&p)
		}
		base, at := args.staged(p.Key)
		source = filepath.Join(base, at)
		if err := podmount.IsMounted(source, args.Path, number); err != nil {
			return notSent(err)
		}
	}
	options := []string{"bind"}
	if p.ReadOnly {
		options = append(options, "ro")
	}
	if kind == foreign.Directory {
		options = append(options, args.Options...)
	}
	if err := podmount.Mount(ctx, b.helpers, name, &p, foreign.Mount{Source: source, Options: options}); err != nil {
		return err
	}
	if args.Group == nil || p.ReadOnly || p.KeepsGroup {
		return nil
	}
	err = b.groups.Change(ctx, name, ownership.Request{Dir: p.Dir, Group: *args.Group, Policy: args.ChangePolicy})
	if err != nil {
		return &storage.Error{Outcome: storage.Uncertain, Err: fmt.Errorf("applyFSGroup failed for vol %s: %w", p.Name, err)}
	}
	return nil
}

// Unpublish is part of storage.Backend.
func (b *Backend) Unpublish(ctx context.Context, p storage.Publishing) error {
	if p.Device {
		return b.unpublishDevice(ctx, &p)
	}
	b.groups.Stop(ctx, p.Dir)
	return podmount.Unmount(ctx, b.helpers, b.VolumeName(p.Key), p.Dir)
}

// Expand is part of storage.Backend. A directory needs nothing. The file system of a block device stays as large as it is.
func (b *Backend) Expand(ctx context.Context, p storage.Publishing, _ string) error {
	var args publishArgs
	if err := decode(p.Args, &args); err != nil {
		return err
	}
	kind, _, err := b.kind(ctx, b.VolumeName(p.Key), args.Path)
	if err == nil && kind == foreign.BlockDevice {
		err = notSent(fmt.Errorf("the file system of a local block device: %w", storage.ErrNoExpand))
	}
	return err
}

// Stats is part of storage.Backend.
func (b *Backend) Stats(ctx context.Context, p storage.Publishing) (storage.Stats, error) {
	if p.Device {
		return deviceStats(&p)
	}
	return podmount.Stats(ctx, b.helpers, b.VolumeName(p.Key), p.Dir)
}
