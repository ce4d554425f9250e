package iscsi

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign/initiator"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/blockdevice"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/podmount"
)

// links returns where the links of a published device are: in upstream's directory of the volume, and in the pod's directory, which
// the container runtime follows.
func links(p *storage.Publishing, stage *stageArgs) (of, pod initiator.Link, err error) {
	base, name := stage.staged()
	of = initiator.Link{Base: base, Dir: name, Name: string(p.UID)}
	pod, err = podmount.DevicePlace(stage.KubeletDir, p)
	return of, pod, err
}

// tag identifies the loop device that holds the published device.
func tag(p *storage.Publishing) string { return blockdevice.TagOf(p.Dir) }

// publishDevice is Publish of a block volume.
func (b *Backend) publishDevice(ctx context.Context, p *storage.Publishing, stage *stageArgs, at *initiator.Disk) error {
	of, pod, err := links(p, stage)
	if err != nil {
		return notSent(err)
	}
	for _, l := range []initiator.Link{of, pod} {
		if err := podmount.Make(l.Base, l.Dir); err != nil {
			return notSent(err)
		}
	}
	_, err = b.do(ctx, p.Key, initiator.Job{Map: &initiator.Map{Disk: *at, Tag: tag(p), Links: []initiator.Link{of, pod}}})
	return podmount.Answered(err)
}

// unpublishDevice is Unpublish of a block volume.
func (b *Backend) unpublishDevice(ctx context.Context, p *storage.Publishing) error {
	var stage stageArgs
	if err := decode(p.Staging.Args, &stage); err != nil {
		return err
	}
	of, pod, err := links(p, &stage)
	if err != nil {
		return notSent(err)
	}
	_, err = b.do(ctx, p.Key, initiator.Job{Unmap: &initiator.Unmap{Tag: tag(p), Links: []initiator.Link{pod, of}}})
	return podmount.Undone(err)
}

// CheckDevice is part of storage.Devices.
func (b *Backend) CheckDevice(p storage.Publishing) error {
	var stage stageArgs
	if err := decode(p.Staging.Args, &stage); err != nil {
		return err
	}
	at, err := b.disk(p.Key, stage.LUN)
	if err != nil {
		return err
	}
	_, pod, err := links(&p, &stage)
	if err != nil {
		return err
	}
	devices, err := os.Open(filepath.Dir(at.Path()))
	if err != nil {
		return err
	}
	defer devices.Close()
	device, err := blockdevice.At(devices, at.Name)
	if err != nil {
		return err
	}
	defer func() { _ = device.Close() }()
	if device.Number.String() != at.Number {
		return fmt.Errorf("%s is device %v now, and %s was published: delete the pod, and create it again", device.Path, device.Number, at.Number)
	}
	return device.CheckMapped(tag(&p), pod)
}
