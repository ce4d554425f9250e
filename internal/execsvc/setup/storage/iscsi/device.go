package iscsi

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/setup/foreign/initiator"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/blockdevice"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/podmount"
	"github.com/podstream/podstream/internal/kubeletdir"
	"github.com/podstream/podstream/internal/openfile"
)

// links returns where the links of a published device are: in upstream's directory of the volume, and in the pod's directory, which
// the container runtime follows.
func links(p *storage.Publishing, stage *stageArgs) (of, pod initiator.Link, err error) {
	if err := podmeta.CheckUID(p.UID); err != nil {
		return of, pod, err
	}
	base, name := stage.staged()
	of = initiator.Link{Base: base, Dir: name, Name: string(p.UID)}
	pod = initiator.Link{
		Base: kubeletdir.PodsDir(stage.KubeletDir),
		Dir:  filepath.Join(string(p.UID), volumeDevices, strings.ReplaceAll(PluginName, "/", "~")), Name: p.Name,
	}
	if p.Name != filepath.Base(p.Name) || p.Dir != filepath.Join(pod.Base, pod.Dir, pod.Name) {
		err = fmt.Errorf("%s isn't the place of a block volume in a pod's directory", p.Dir)
	}
	return of, pod, err
}

// tag identifies the loop device that holds the published device.
func tag(p *storage.Publishing) string {
	sum := sha256.Sum256([]byte(p.Dir))
	return fmt.Sprintf("podstream-%x", sum[:24])
}

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
	return podmount.Answered(err)
}

// CheckDevice is part of storage.Devices.
func (b *Backend) CheckDevice(p storage.Publishing) error {
	var stage stageArgs
	if err := decode(p.Staging.Args, &stage); err != nil {
		return err
	}
	at, err := b.disk(p.Key, &stage.disk)
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
	dir, err := openfile.OpenDirBeneath(pod.Base, pod.Dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	const again = "delete the pod, and create it again"
	switch held, is, err := blockdevice.Held(tag(&p)); {
	case err != nil:
		return err
	case !device.IsLinked(dir, pod.Name):
		return fmt.Errorf("%s isn't the link to %s that was made: %s", p.Dir, device.Path, again)
	case !is || held != device.Number || held.String() != at.Number:
		return fmt.Errorf("%s is device %v now, and %s was published: %s", device.Path, device.Number, at.Number, again)
	}
	return nil
}
