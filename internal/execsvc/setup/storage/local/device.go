package local

import (
	"context"
	"errors"
	"fmt"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/blockdevice"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/podmount"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
)

// errNotDevice is the error of a block volume whose path is something else.
var errNotDevice = errors.New("volumeMode is Block, and it isn't a block device")

// isDevice returns an error unless the path leads to a block device.
func (b *Backend) isDevice(ctx context.Context, k record.Key, path string) error {
	a, err := b.helpers.Do(ctx, b.VolumeName(k), foreign.Job{Look: path})
	switch {
	case isGone(err):
		return unrepeatable(err)
	case err != nil:
		return notSent(err)
	case a.Kind != foreign.BlockDevice:
		return unrepeatable(fmt.Errorf("%s: %w", path, errNotDevice))
	}
	return nil
}

// checkStage returns an error if the volume is staged in another volumeMode, or, as a device, from another path: the PersistentVolume was
// replaced by one with its name. A pod would write to a device whose file system is mounted.
func checkStage(p *storage.Publishing, args *publishArgs) (stageArgs, error) {
	var stage stageArgs
	if err := decode(p.Staging.Args, &stage); err != nil {
		return stage, err
	}
	if stage.Device != p.Device || args.Device != p.Device || p.Device && stage.Path != args.Path {
		return stage, errReplaced(p)
	}
	return stage, nil
}

func errReplaced(p *storage.Publishing) error {
	return unrepeatable(fmt.Errorf("PersistentVolume %s was replaced, and pods use the earlier one, or wait for it, with another volumeMode or path: "+
		"the pod waits until they are gone", p.Name))
}

// links returns where the links of a published device are: in the pod's directory, which the container runtime follows, and in upstream's
// directory of the volume.
func links(p *storage.Publishing, args *use) (pod, of blockdevice.Place, err error) {
	base, name := args.staged(p.Key)
	of = blockdevice.Place{Base: base, Dir: name, Name: string(p.UID)}
	pod, err = podmount.DevicePlace(args.KubeletDir, p)
	return pod, of, err
}

// publishDevice is Publish of a block volume.
func (b *Backend) publishDevice(ctx context.Context, p *storage.Publishing, args *publishArgs) error {
	pod, of, err := links(p, &args.use)
	if err != nil {
		return notSent(err)
	}
	if err := b.isDevice(ctx, p.Key, args.Path); err != nil {
		return err
	}
	for _, l := range []blockdevice.Place{of, pod} {
		if err := podmount.Make(l.Base, l.Dir); err != nil {
			return notSent(err)
		}
	}
	m := foreign.MapDevice{Path: args.Path, Tag: blockdevice.TagOf(p.Dir), Links: []blockdevice.Place{of, pod}}
	_, err = b.helpers.Do(ctx, b.VolumeName(p.Key), foreign.Job{MapDevice: &m})
	return podmount.Answered(err)
}

// unpublishDevice is Unpublish of a block volume. It doesn't need the device.
func (b *Backend) unpublishDevice(ctx context.Context, p *storage.Publishing) error {
	var args publishArgs
	if err := decode(p.Args, &args); err != nil {
		return err
	}
	pod, of, err := links(p, &args.use)
	if err != nil {
		return notSent(err)
	}
	u := foreign.UnmapDevice{Tag: blockdevice.TagOf(p.Dir), Links: []blockdevice.Place{pod, of}}
	_, err = b.helpers.Do(ctx, b.VolumeName(p.Key), foreign.Job{UnmapDevice: &u})
	return podmount.Undone(err)
}

// CheckDevice is part of storage.Devices. It asks the kernel, and looks at nothing on the PersistentVolume's path.
func (b *Backend) CheckDevice(p storage.Publishing) error {
	var args publishArgs
	if err := decode(p.Args, &args); err != nil {
		return err
	}
	pod, _, err := links(&p, &args.use)
	if err != nil {
		return err
	}
	held, err := heldDevice(&p)
	if err != nil {
		return err
	}
	device, err := blockdevice.Numbered(held)
	if err != nil {
		return fmt.Errorf("the device is gone: %w", err)
	}
	defer func() { _ = device.Close() }()
	return device.CheckMapped(blockdevice.TagOf(p.Dir), pod)
}

// heldDevice returns the number of a published device.
func heldDevice(p *storage.Publishing) (blockdevice.Number, error) {
	held, is, err := blockdevice.Held(blockdevice.TagOf(p.Dir))
	if err == nil && !is {
		err = errors.New("no loop device holds the published device any more, so it may be another one: delete the pod, and create it again")
	}
	return held, err
}

// deviceStats is Stats of a block volume: its size.
func deviceStats(p *storage.Publishing) (storage.Stats, error) {
	held, err := heldDevice(p)
	if err != nil {
		return storage.Stats{}, err
	}
	size, err := held.Size()
	return storage.Stats{Capacity: size}, err
}
