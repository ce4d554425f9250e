package csivolume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/blockdevice"
	"github.com/podstream/podstream/internal/kubeletdir"
)

var _ storage.Devices = (*Backend)(nil)

// volumeDevices is upstream's name of the directories of block volumes.
const volumeDevices = "volumeDevices"

// stagedDevice returns where a block volume is staged. The directory around the mount point has other volumes too.
func stagedDevice(kubeletDir, name string) (place, error) {
	if err := checkName(name); err != nil {
		return place{}, err
	}
	return place{base: kubeletdir.Plugins(kubeletDir), name: filepath.Join(PluginName, volumeDevices, "staging"), mount: name, shared: true}, nil
}

// devicePlaces are where a block volume is published.
type devicePlaces struct {
	// published has the driver's file: the device itself, or a link to it. link has the link that the container runtime follows.
	published, link place
}

// publishedDevice returns where a block volume is published. It must be where package storage has it.
func publishedDevice(kubeletDir string, p *storage.Publishing) (devicePlaces, error) {
	if err := checkPod(p); err != nil {
		return devicePlaces{}, err
	}
	at := devicePlaces{
		published: place{
			base: kubeletdir.Plugins(kubeletDir), name: filepath.Join(PluginName, volumeDevices, "publish", p.Name), mount: string(p.UID),
		},
		link: place{
			base: kubeletdir.PodsDir(kubeletDir), name: filepath.Join(string(p.UID), volumeDevices, strings.ReplaceAll(PluginName, "/", "~")),
			mount: p.Name,
		},
	}
	return at, checkDir(p, at.link.target())
}

// tag identifies the loop device that holds the published device.
func (d devicePlaces) tag() string { return blockdevice.TagOf(d.published.target()) }

// publishDevice is Publish of a block volume.
func (b *Backend) publishDevice(ctx context.Context, p *storage.Publishing, args *publishArgs) error {
	at, err := publishedDevice(args.KubeletDir, p)
	if err != nil {
		return err
	}
	d, _, err := b.driver(ctx, p.Driver, "blockMapper.MapPodDevice failed to get CSI client")
	if err != nil {
		return err
	}
	call, err := b.publishCall(ctx, p, args, at.published.target())
	if err != nil {
		return err
	}
	if call.StagingPath == "" {
		// As with the kubelet, the driver gets the path also if it doesn't stage volumes.
		stage, err := stagedDevice(args.KubeletDir, p.Name)
		if err != nil {
			return err
		}
		call.StagingPath = stage.target()
	}
	dir, err := at.published.open(true)
	if err != nil {
		return notSent(fmt.Errorf(PluginName+": blockMapper.publishVolumeForBlock failed to create dir %s:  %w", at.published.dir(), err))
	}
	defer dir.Close()
	err = answered("", d.NodePublishVolume(ctx, call))
	if storage.OutcomeOf(err) == storage.Final && !p.Again {
		if left := at.removePublished(); left != nil {
			b.cfg.Log.Warn("the directory of a volume that the driver couldn't make stays", "path", at.published.dir(), "error", left)
		}
	}
	if err != nil {
		return err
	}
	if p.Again {
		// Containers have the device by its number: another one must neither be held in its place nor get its link.
		err = at.check()
	} else {
		err = at.mapDevice(dir)
	}
	if err != nil {
		return uncertain(fmt.Errorf("the driver confirmed the volume, and its device can't be used: %w", err))
	}
	return nil
}

// mapDevice holds the device that the driver has made, and links it in the pod's directory.
func (d devicePlaces) mapDevice(published *os.File) error {
	device, err := blockdevice.At(published, d.published.mount)
	if err != nil {
		return err
	}
	defer func() { _ = device.Close() }()
	if err := device.Hold(d.tag()); err != nil {
		return err
	}
	dir, err := d.link.open(true)
	if err != nil {
		return err
	}
	defer dir.Close()
	return device.Link(dir, d.link.mount)
}

// CheckDevice is part of storage.Devices.
func (b *Backend) CheckDevice(p storage.Publishing) error {
	var args publishArgs
	if err := decode(p.Args, &args); err != nil {
		return err
	}
	at, err := publishedDevice(args.KubeletDir, &p)
	if err != nil {
		return err
	}
	return at.check()
}

// check returns an error if the driver's device, or the link to it in the pod's directory, isn't the one that was published.
func (d devicePlaces) check() error {
	published, err := d.published.open(false)
	if err != nil {
		return err
	}
	defer published.Close()
	device, err := blockdevice.At(published, d.published.mount)
	if err != nil {
		return err
	}
	defer func() { _ = device.Close() }()
	dir, err := d.link.open(false)
	if err != nil {
		return err
	}
	defer dir.Close()
	if !device.IsLinked(dir, d.link.mount) {
		return fmt.Errorf("%s isn't the link to %s that was made: delete the pod, and create it again", d.link.target(), device.Path)
	}
	switch held, is, err := blockdevice.Held(d.tag()); {
	case err != nil:
		return err
	case !is:
		return fmt.Errorf("no loop device holds %s (%v) any more, so it may be another device: delete the pod, and create it again",
			device.Path, device.Number)
	case held != device.Number:
		return fmt.Errorf("%s is device %v now, and %v was published: delete the pod, and create it again", device.Path, device.Number, held)
	}
	return nil
}

// unpublishDevice is Unpublish of a block volume. As with the kubelet, the device is given up before the driver is called.
func (b *Backend) unpublishDevice(ctx context.Context, p *storage.Publishing, args *publishArgs) error {
	at, err := publishedDevice(args.KubeletDir, p)
	if err != nil {
		return err
	}
	if err := at.unmapDevice(); err != nil {
		return notSent(fmt.Errorf("give up the device: %w", err))
	}
	d, _, err := b.driver(ctx, p.Driver, "blockMapper.UnmapPodDevice failed to get CSI client")
	if err != nil {
		return err
	}
	if err := d.NodeUnpublishVolume(ctx, p.Handle, at.published.target()); err != nil {
		return answered(PluginName+": blockMapper.unpublishVolumeForBlock failed: ", err)
	}
	if err := at.removePublished(); err != nil {
		return uncertain(fmt.Errorf(PluginName+": blockMapper.unpublishVolumeForBlock failed: %w", err))
	}
	return nil
}

// unmapDevice undoes mapDevice. It fails also if the driver would be called with a path that leads through a link.
func (d devicePlaces) unmapDevice() error {
	published, err := d.published.open(false)
	switch {
	case err == nil:
		_ = published.Close()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	dir, err := d.link.open(false)
	if err == nil {
		defer dir.Close()
		err = blockdevice.Unlink(dir, d.link.mount)
	}
	// What isn't a link doesn't keep the driver from undoing the volume. The clean-up of the pod's directory reports it.
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, blockdevice.ErrNoLink) {
		return err
	}
	return blockdevice.Release(d.tag())
}

// removePublished removes what a driver may leave, and the directory if no other pod has the volume. A file with a
// size, a device, and anything that is mounted stay, and are an error.
func (d devicePlaces) removePublished() error {
	dir, err := d.published.open(false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := removeEmptyFile(dir, d.published.mount); err != nil {
		return err
	}
	parent, err := place{base: d.published.base, name: filepath.Dir(d.published.name)}.open(false)
	if err != nil {
		return err
	}
	defer parent.Close()
	err = unix.Unlinkat(int(parent.Fd()), filepath.Base(d.published.name), unix.AT_REMOVEDIR)
	if err == nil || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		return nil
	}
	return fmt.Errorf("remove the directory %s: %w", d.published.dir(), err)
}

// removeEmptyFile removes an empty file, on which a device was bound, or a link. A driver should do that.
func removeEmptyFile(dir *os.File, name string) error {
	path := filepath.Join(dir.Name(), name)
	var st unix.Stat_t
	err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	kind := st.Mode & unix.S_IFMT
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return fmt.Errorf("stat %s: %w", path, err)
	case kind == unix.S_IFBLK:
		return fmt.Errorf("%s: the driver says that it has unpublished the volume, and the device is still there", path)
	case kind != unix.S_IFLNK && (kind != unix.S_IFREG || st.Size > 0):
		return fmt.Errorf("%s isn't a device, a link or an empty file: it is left as it is; move it away", path)
	}
	// A mount point is EBUSY.
	return unlink(dir, name)
}
