package csivolume

import (
	"context"
	"errors"
	"fmt"

	"github.com/podstream/podstream/internal/execsvc/setup/csi"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/volume/ownership"
)

// Publish is part of storage.Backend.
func (b *Backend) Publish(ctx context.Context, p storage.Publishing) error {
	args, at, err := publication(&p)
	if err != nil {
		return err
	}
	ctx = args.context(ctx)
	if args.Device != "" {
		return b.publishDevice(ctx, &p, &args)
	}
	d, _, err := b.driver(ctx, p.Driver, "mounter.SetUpAt failed to get CSI client")
	if err != nil {
		return err
	}
	call, err := b.publishCall(ctx, &p, &args, at.target())
	if err != nil {
		return err
	}
	tokens, err := b.tokens(ctx, &p, &args)
	if err != nil {
		return err
	}
	tokens.addTo(&call, args.TokensInSecrets)
	if err := at.prepare(ctx, false, publishedData(&p, &args, b.cfg.Node)); err != nil {
		return notSent(fmt.Errorf(PluginName+": mounter.SetUpAt failed to create dir %q: %w", at.dir(), err))
	}
	err = answered("", tokens.strip(d.NodePublishVolume(ctx, call)))
	if storage.OutcomeOf(err) == storage.Final && !p.Again {
		return b.tidied(at, err)
	}
	if err != nil {
		return err
	}
	if err := b.confirm(at); err != nil {
		return uncertain(err)
	}
	return b.setGroup(ctx, &p, &args, at)
}

// publishCall returns the request, without tokens.
func (b *Backend) publishCall(ctx context.Context, p *storage.Publishing, args *publishArgs, target string) (csi.Publish, error) {
	call := csi.Publish{
		VolumeID: p.Handle, TargetPath: target, Access: args.mount(), ReadOnly: p.ReadOnly, PublishContext: p.Context,
		VolumeContext: args.VolumeContext,
	}
	var err error
	if call.StagingPath, err = stagingPath(p, args); err != nil {
		return call, err
	}
	call.Secrets, err = b.secret(ctx, "NodePublishSecretRef", args.Secret)
	return call, err
}

// stagingPath returns where the volume is staged; empty: it isn't. That of a block volume has the name of the PersistentVolume
// for which it was staged, also if another one has the same handle. It lies in the --kubelet-dir of that time: a driver that gets
// another path may publish an empty directory of the node's disk.
func stagingPath(p *storage.Publishing, args *publishArgs) (string, error) {
	if !p.Staged {
		return "", nil
	}
	var stage stageArgs
	if err := decode(p.Staging.Args, &stage); err != nil {
		return "", err
	}
	if (stage.Device != "") != (args.Device != "") {
		return "", notSent(errors.New("another PersistentVolume with this handle and another volumeMode is in use on this node"))
	}
	at, err := stage.place(p.Key)
	return at.target(), err
}

// confirm checks that the driver made what a container can mount. A directory that isn't a mount point is accepted, as
// with the kubelet.
func (b *Backend) confirm(at place) error {
	dir, err := at.open(false)
	if err != nil {
		return err
	}
	defer dir.Close()
	is, err := look(dir, at.mount)
	switch {
	case err != nil:
		return err
	case is == nothing:
		return fmt.Errorf("the driver confirmed the volume, and there is no directory %s", at.target())
	case is == directory:
		b.cfg.Log.Warn("the driver confirmed the volume, and nothing is mounted there: the pod writes to the node's disk", "path", at.target())
	}
	return nil
}

// setGroup changes the group of the volume's files, if that isn't the driver's task.
func (b *Backend) setGroup(ctx context.Context, p *storage.Publishing, args *publishArgs, at place) error {
	if args.Group == nil {
		return nil
	}
	err := b.groups.Change(ctx, b.VolumeName(p.Key), ownership.Request{
		Dir: at.target(), Group: *args.Group, Policy: args.ChangePolicy,
	})
	if err != nil {
		return uncertain(fmt.Errorf("applyFSGroup failed for vol %s: %w", p.Handle, err))
	}
	return nil
}

// Unpublish is part of storage.Backend.
func (b *Backend) Unpublish(ctx context.Context, p storage.Publishing) error {
	args, at, err := publication(&p)
	if err != nil {
		return err
	}
	if args.Device != "" {
		return b.unpublishDevice(ctx, &p, &args)
	}
	if err := at.check(); err != nil {
		return notSent(fmt.Errorf(PluginName+": Unmounter.TearDownAt failed: %w", err))
	}
	d, _, err := b.driver(ctx, p.Driver, "Unmounter.TearDownAt failed to get CSI client")
	if err != nil {
		return err
	}
	b.groups.Stop(ctx, at.target())
	if err := d.NodeUnpublishVolume(ctx, p.Handle, at.target()); err != nil {
		return answered(PluginName+": Unmounter.TearDownAt failed: ", err)
	}
	if err := at.remove(false); err != nil {
		return uncertain(fmt.Errorf(PluginName+": Unmounter.TearDownAt failed to clean mount dir [%s]: %w", at.target(), err))
	}
	return nil
}

// publication returns a publication's arguments and its place. Of a block volume it is the place of the driver's file.
func publication(p *storage.Publishing) (publishArgs, place, error) {
	var args publishArgs
	if err := decode(p.Args, &args); err != nil {
		return args, place{}, err
	}
	if args.Device != "" {
		at, err := publishedDevice(args.KubeletDir, p)
		return args, at.published, err
	}
	at, err := published(args.KubeletDir, p)
	return args, at, err
}

// Expand is part of storage.Backend. args are those of ExpandArgs.
func (b *Backend) Expand(ctx context.Context, p storage.Publishing, text string) error {
	args, at, err := publication(&p)
	if err != nil {
		return err
	}
	ctx = args.context(ctx)
	var to expandArgs
	if err := decode(text, &to); err != nil {
		return err
	}
	d, can, err := b.driver(ctx, p.Driver, "Expander.NodeExpand failed")
	if err != nil {
		return err
	}
	if !can.Expand {
		return notSent(fmt.Errorf("NodeExpand is not supported by the CSI driver %s: %w", p.Driver, storage.ErrNoExpand))
	}
	secrets, err := b.secret(ctx, "NodeExpandSecretRef", args.ExpandSecret)
	if err != nil {
		return err
	}
	call := csi.Expand{VolumeID: p.Handle, Path: at.target(), Bytes: to.Bytes, Access: args.access(), Secrets: secrets}
	if call.StagingPath, err = stagingPath(&p, &args); err != nil {
		return err
	}
	if args.Device != "" {
		err = b.CheckDevice(p)
	} else {
		err = at.check()
	}
	if err != nil {
		return notSent(fmt.Errorf("Expander.NodeExpand failed: %w", err))
	}
	_, err = d.NodeExpandVolume(ctx, call)
	return answered("Expander.NodeExpand failed to expand the volume : ", err)
}

// Stats is part of storage.Backend.
func (b *Backend) Stats(ctx context.Context, p storage.Publishing) (storage.Stats, error) {
	_, at, err := publication(&p)
	if err != nil {
		return storage.Stats{}, err
	}
	d, can, err := b.driver(ctx, p.Driver, "failed to get the statistics of a volume")
	if err != nil {
		return storage.Stats{}, err
	}
	if !can.VolumeStats {
		return storage.Stats{}, fmt.Errorf("%w: %s", storage.ErrNoStats, p.Driver)
	}
	s, err := d.NodeGetVolumeStats(ctx, p.Handle, at.target())
	if err != nil {
		return storage.Stats{}, fmt.Errorf("get the statistics of volume %s: %w", p.Handle, err)
	}
	return storage.Stats{
		Available: s.Bytes.Available, Capacity: s.Bytes.Total, Used: s.Bytes.Used,
		Inodes: s.Inodes.Total, InodesFree: s.Inodes.Available, InodesUsed: s.Inodes.Used,
	}, nil
}
