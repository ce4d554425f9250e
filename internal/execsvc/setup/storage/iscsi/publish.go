package iscsi

import (
	"context"
	"errors"
	"fmt"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/podmount"
	"github.com/podstream/podstream/internal/execsvc/setup/volume/ownership"
)

// Publish is part of storage.Backend.
func (b *Backend) Publish(ctx context.Context, p storage.Publishing) error {
	var args publishArgs
	var stage stageArgs
	if err := errors.Join(decode(p.Args, &args), decode(p.Staging.Args, &stage)); err != nil {
		return err
	}
	at, err := b.disk(p.Key, stage.LUN)
	if err != nil {
		return notSent(err)
	}
	if p.Device {
		return b.publishDevice(ctx, &p, &stage, at)
	}
	source := stage.target()
	if err := podmount.IsMounted(source, at.Name, at.Number); err != nil {
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

// Unpublish is part of storage.Backend.
func (b *Backend) Unpublish(ctx context.Context, p storage.Publishing) error {
	if p.Device {
		return b.unpublishDevice(ctx, &p)
	}
	b.groups.Stop(ctx, p.Dir)
	return podmount.Unmount(ctx, b.cfg.Helpers, b.VolumeName(p.Key), p.Dir)
}
