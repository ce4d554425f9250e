package eviction

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstream/podstream/internal/execsvc/machine/nodefs"
)

// statTimeout bounds the wait for a file system's size, and disksTimeout the wait for the runtime's disks.
const statTimeout, disksTimeout = 5 * time.Second, 10 * time.Second

// fileSystem is the size of a file system, in bytes and files.
type fileSystem struct {
	device                        uint64
	bytes, free, files, filesFree int64
}

func statfs(path string) (fileSystem, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fileSystem{}, fmt.Errorf("stat %s: %w", path, err)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return fileSystem{}, fmt.Errorf("statfs %s: %w", path, err)
	}
	unit := uint64(fs.Frsize) //nolint:gosec // It is a size.
	return fileSystem{st.Dev, bounded(fs.Blocks * unit), bounded(fs.Bavail * unit), bounded(fs.Files), bounded(fs.Ffree)}, nil
}

// Disks are directories on imagefs and on containerfs, from the runtime's ImageFsInfo.
type Disks struct {
	// Images is a directory on the file system of images. Containers is one on that of writable layers; empty: they are
	// with the images.
	Images, Containers string
}

// layout has the devices of nodefs, imagefs and containerfs. Zero: they are one file system.
type layout struct{ node, image, container uint64 }

// contents are the kinds of files that a file system has.
type contents struct{ podFiles, writableLayers, images bool }

// on returns what the file system of a signal has, and so what can be removed from it, and which files of pods count
// there. Volumes and logs are on nodefs.
//
// The result is the kubelet's for the layouts that it supports: one file system, images and writable layers on another
// one, and only images on another one. For others, of which the kubelet removes and counts the wrong files, it follows
// from the devices.
func (l layout) on(signal Signal) contents {
	at := l.node
	switch signal {
	case ImageFsAvailable, ImageFsInodesFree:
		at = l.image
	case ContainerFsAvailable, ContainerFsInodesFree:
		at = l.container
	}
	return contents{podFiles: at == l.node, writableLayers: at == l.container, images: at == l.image}
}

// ownContainerFs reports whether writable layers have a file system of their own. Otherwise the signals of containerfs
// are those of nodefs or imagefs, with the same thresholds, and aren't observed again.
func (l layout) ownContainerFs() bool { return l.container != l.node && l.container != l.image }

// fileSystems records nodefs, imagefs and containerfs, which may be one file system. One that can't be read, or doesn't
// answer, doesn't affect the others: its device is the last one. It records none until all devices are known: the ranking
// of pods for nodefs depends on them.
func (r *reader) fileSystems(ctx context.Context, seen observations) (layout, error) {
	var errs []error
	if r.disks != nil && (r.dirs.Images == "" || r.moved) {
		if err := r.findDisks(ctx); err != nil {
			errs = append(errs, fmt.Errorf("get the file systems of images and containers: %w", err))
			if r.dirs.Images == "" {
				return layout{}, errors.Join(errs...)
			}
		}
	}
	images := cmp.Or(r.dirs.Images, r.dir)
	paths := []string{r.dir, images, cmp.Or(r.dirs.Containers, images)}
	found, devices, unknown := map[string]fileSystem{}, map[string]uint64{}, false
	for _, path := range paths {
		if _, before := devices[path]; before {
			continue
		}
		fs, err := r.look(ctx, path)
		if err == nil {
			found[path], devices[path] = fs, fs.device
			continue
		}
		errs = append(errs, err)
		// The runtime may have moved its disks.
		r.moved = r.moved || path != r.dir
		if last, known := r.devices[path]; known {
			devices[path] = last
		} else {
			unknown = true
		}
	}
	if r.devices = devices; unknown {
		return layout{}, errors.Join(errs...)
	}
	disks := layout{devices[paths[0]], devices[paths[1]], devices[paths[2]]}
	found[paths[0]].record(seen, NodeFsAvailable, NodeFsInodesFree)
	if err := r.previousPods(ctx, seen, found[paths[0]]); err != nil {
		errs = append(errs, err)
	}
	found[paths[1]].record(seen, ImageFsAvailable, ImageFsInodesFree)
	if disks.ownContainerFs() {
		found[paths[2]].record(seen, ContainerFsAvailable, ContainerFsInodesFree)
	}
	return disks, errors.Join(errs...)
}

// previousPods has the file system of older pods count as nodefs, for each signal of which it has the smaller part left. It has
// few pods, and none after they ended: it has no signal of its own.
func (r *reader) previousPods(ctx context.Context, seen observations, node fileSystem) error {
	if r.previous == "" {
		return nil
	}
	fs, err := r.look(ctx, r.previous)
	switch {
	case errors.Is(err, iofs.ErrNotExist), err == nil && fs.device == node.device:
		return nil
	case err != nil:
		return err
	}
	theirs := observations{}
	fs.record(theirs, NodeFsAvailable, NodeFsInodesFree)
	for signal, one := range theirs {
		if now, known := seen[signal]; !known || one.part() < now.part() {
			seen[signal] = one
		}
	}
	return nil
}

// findDisks asks the runtime for its directories. Without an answer they stay.
func (r *reader) findDisks(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, disksTimeout)
	defer cancel()
	dirs, err := r.disks(asking)
	if err == nil {
		r.dirs, r.moved = dirs, false
	}
	return err
}

// look returns the file system of a path, or an error if it doesn't answer.
func (r *reader) look(ctx context.Context, path string) (fileSystem, error) {
	return nodefs.Look(ctx, r.waits, nodefs.Pod{UID: path}, path, func() (fileSystem, error) { return r.stat(path) }, nil)
}

// record stores the file system's two signals. Some file systems report no number of files, and some no size.
func (f fileSystem) record(seen observations, bytes, files Signal) {
	if f.bytes > 0 {
		seen[bytes] = inBytes(f.free, f.bytes)
	}
	if f.files > 0 {
		seen[files] = observation{*resource.NewQuantity(f.filesFree, resource.DecimalSI), *resource.NewQuantity(f.files, resource.DecimalSI)}
	}
}
