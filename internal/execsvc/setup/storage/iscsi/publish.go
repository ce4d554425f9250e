package iscsi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/foreign/initiator"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/blockdevice"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/podmount"
	"github.com/podstream/podstream/internal/execsvc/setup/volume/ownership"
	"github.com/podstream/podstream/internal/mounttable"
)

// Publish is part of storage.Backend.
func (b *Backend) Publish(ctx context.Context, p storage.Publishing) error {
	var args publishArgs
	var stage stageArgs
	if err := errors.Join(decode(p.Args, &args), decode(p.Staging.Args, &stage)); err != nil {
		return err
	}
	at, err := b.disk(p.Key, &stage.disk)
	if err != nil {
		return notSent(err)
	}
	if p.Device {
		return b.publishDevice(ctx, &p, &stage, at)
	}
	source := stage.target()
	if err := isMounted(source, at); err != nil {
		return notSent(err)
	}
	options := []string{"bind"}
	if p.ReadOnly {
		options = append(options, "ro")
	}
	name := b.VolumeName(p.Key)
	if err := podmount.Mount(ctx, b.cfg.Helpers, name, &p, foreign.Mount{Source: source, Options: options}); err != nil {
		return err
	}
	if args.Group == nil || p.ReadOnly {
		return nil
	}
	err = b.groups.Change(ctx, name, ownership.Request{Dir: p.Dir, Group: *args.Group, Policy: args.ChangePolicy})
	if err != nil {
		return uncertain(fmt.Errorf("applyFSGroup failed for vol %s: %w", p.Name, err))
	}
	return nil
}

// isMounted returns an error unless the disk is mounted there: the pod would get a directory of the node's own disk.
func isMounted(path string, at *initiator.Disk) error {
	above, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	point := filepath.Join(above, filepath.Base(path))
	mounts, err := mounttable.Read()
	if err != nil {
		return err
	}
	for _, m := range slices.Backward(mounts) {
		if m.Point != point {
			continue
		}
		if blockdevice.IsOf(&m, at.Number) {
			return nil
		}
		return fmt.Errorf("%s (%d:%d, %s) is mounted at %s, and not the disk %s (%s) of the volume",
			m.Source, m.Major, m.Minor, m.Type, path, at.Name, at.Number)
	}
	return fmt.Errorf("the disk %s isn't mounted at %s any more: delete the pods that use the volume, so that it is mounted again", at.Name, path)
}

// Unpublish is part of storage.Backend.
func (b *Backend) Unpublish(ctx context.Context, p storage.Publishing) error {
	if p.Device {
		return b.unpublishDevice(ctx, &p)
	}
	b.groups.Stop(ctx, p.Dir)
	return podmount.Unmount(ctx, b.cfg.Helpers, b.VolumeName(p.Key), p.Dir)
}
