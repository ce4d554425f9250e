package csivolume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/podstream/podstream/internal/execsvc/setup/csi"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
)

// Stage is part of storage.Backend.
func (b *Backend) Stage(ctx context.Context, s storage.Staging) error {
	var args stageArgs
	if err := decode(s.Args, &args); err != nil {
		return err
	}
	at, err := args.place(s.Key)
	if err != nil {
		return err
	}
	ctx = args.context(ctx)
	client, dir := "attacher.MountDevice failed to create newCsiDriverClient", "attacher.MountDevice failed to create dir"
	if at.shared {
		client, dir = "blockMapper.SetUpDevice failed to get CSI client", "blockMapper.stageVolumeForBlock failed to create dir"
	}
	d, _, err := b.driver(ctx, s.Driver, client)
	if err != nil {
		return err
	}
	secrets, err := b.secret(ctx, "NodeStageSecretRef", args.Secret)
	if err != nil {
		return err
	}
	if err := at.prepare(ctx, true, stagedData(&s, &args)); err != nil {
		return notSent(fmt.Errorf(PluginName+": %s %q: %w", dir, at.target(), err))
	}
	err = answered("", d.NodeStageVolume(ctx, csi.Stage{
		VolumeID: s.Handle, StagingPath: at.target(), Access: args.mount(),
		PublishContext: s.Context, VolumeContext: args.VolumeContext, Secrets: secrets,
	}))
	if storage.OutcomeOf(err) == storage.Final {
		return b.tidied(at, err)
	}
	return err
}

// Unstage is part of storage.Backend.
func (b *Backend) Unstage(ctx context.Context, s storage.Staging) error {
	var args stageArgs
	if err := decode(s.Args, &args); err != nil {
		return err
	}
	at, err := args.place(s.Key)
	if err != nil {
		return err
	}
	client, failed := "attacher.UnmountDevice failed to create newCsiDriverClient", "attacher.UnmountDevice failed"
	if at.shared {
		client, failed = "blockMapper.TearDownDevice failed to get CSI client", "blockMapper.unstageVolumeForBlock failed"
	}
	if err := at.check(); err != nil {
		return notSent(fmt.Errorf(PluginName+": %s: %w", failed, err))
	}
	d, _, err := b.driver(ctx, s.Driver, client)
	if err != nil {
		return err
	}
	if err := d.NodeUnstageVolume(ctx, s.Handle, at.target()); err != nil {
		return answered(PluginName+": "+failed+": ", err)
	}
	if err := at.remove(true); err != nil {
		return uncertain(fmt.Errorf("failed to clean up global mount %s: %w", at.target(), err))
	}
	return nil
}

// place returns where the volume is staged.
func (s *stageArgs) place(k record.Key) (place, error) {
	if s.Device != "" {
		return stagedDevice(s.KubeletDir, s.Device)
	}
	return staged(s.KubeletDir, k)
}

// prepare creates the place's directory and its vol_data.json. withMount: the mount point too, which the driver of a
// published volume makes itself. It refuses a place in which a driver would follow a link.
func (p place) prepare(ctx context.Context, withMount bool, data map[string]string) error {
	dir, err := p.open(true)
	if err != nil {
		return err
	}
	defer dir.Close()
	if withMount {
		if err := makeDir(dir, p.mount); err != nil {
			return err
		}
	}
	if _, err := look(dir, p.mount); err != nil {
		return err
	}
	if p.shared {
		return nil
	}
	return writeData(ctx, dir, data)
}

// check returns an error if the place's path leads through a link. Nothing else keeps a volume from being undone: a driver
// may remove a file, and unmount what it mounted elsewhere.
func (p place) check() error {
	dir, err := p.open(false)
	if err == nil {
		defer dir.Close()
		_, err = look(dir, p.mount)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errFile) || errors.Is(err, errForeign) {
		return nil
	}
	return err
}

// remove removes what prepare and the driver made, if nothing is mounted and no files are left. own: the place's directory
// too.
func (p place) remove(own bool) error {
	dir, err := p.open(false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := removeMountPoint(dir, p.mount); err != nil || p.shared {
		return err
	}
	if err := removeData(dir); err != nil || !own {
		return err
	}
	parent, err := place{base: p.base, name: filepath.Dir(p.name)}.open(false)
	if err != nil {
		return err
	}
	defer parent.Close()
	return removeEmpty(parent, filepath.Base(p.name))
}

// tidied removes what was made for a call that did nothing: package storage forgets it, if it was the first one. It returns
// the call's error. What can't be removed is logged: the clean-up of the pod's directory reports it too.
func (b *Backend) tidied(p place, err error) error {
	if left := p.remove(p.mount == globalMount); left != nil {
		b.cfg.Log.Warn("the directory of a volume that the driver couldn't make stays", "path", p.dir(), "error", left)
	}
	return err
}
