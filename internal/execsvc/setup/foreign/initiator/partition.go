package initiator

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// device is a block device.
type device struct {
	// name is in /dev, number is its major:minor, and dir is its directory in sysfs.
	name, number, dir string
}

// find returns the device in the directory in sysfs; nil: it has just gone. One without a number may be in use.
func find(name, dir string) (*device, error) {
	number, err := attribute(dir, "dev")
	if isGone(err) {
		if _, err := os.Lstat(dir); isGone(err) {
			return nil, nil //nolint:nilnil // There is none.
		}
		err = nil
	}
	if err == nil && number == "" {
		err = &InUseError{name, "its number isn't known"}
	}
	return &device{name, number, dir}, err
}

// isGone reports whether the error is that of what isn't in sysfs, or isn't any more.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV)
}

// partitions returns the kernel's partitions of a disk. They go with it.
func (h *Host) partitions(disk string) ([]device, error) {
	all, err := names(h.sys("block", disk))
	if err != nil {
		return nil, err
	}
	var found []device
	for _, name := range all {
		if !strings.HasPrefix(name, disk) {
			continue
		}
		dir := h.sys("block", disk, name)
		_, err := attribute(dir, "partition")
		if isGone(err) {
			continue
		}
		var p *device
		if err == nil {
			p, err = find(name, dir)
		}
		if err != nil {
			return nil, err
		}
		if p != nil {
			found = append(found, *p)
		}
	}
	return found, nil
}

// partitionMaps returns the maps that kpartx(8) has made of the partitions of a multipath device. multipath -f removes them with it.
func (h *Host) partitionMaps(multipath string) ([]device, error) {
	of, err := attribute(h.sys("block", multipath, "dm", "uuid"))
	if err != nil {
		return nil, err
	}
	holders, err := names(h.sys("block", multipath, "holders"))
	if err != nil {
		return nil, err
	}
	var found []device
	for _, name := range holders {
		uuid, err := attribute(h.sys("block", name, "dm", "uuid"))
		if isGone(err) || err == nil && !isPartition(uuid, of) {
			continue
		}
		if err != nil {
			return nil, err
		}
		on, err := names(h.sys("block", name, "slaves"))
		if err == nil && !slices.Equal(on, []string{multipath}) {
			continue
		}
		var p *device
		if err == nil {
			p, err = find(name, h.sys("block", name))
		}
		if err != nil {
			return nil, err
		}
		if p != nil {
			found = append(found, *p)
		}
	}
	return found, nil
}

// isPartition reports whether the UUID is that of a partition's map: part1-mpath-ID for the multipath device mpath-ID.
func isPartition(uuid, of string) bool {
	id, is := strings.CutPrefix(of, multipathUUID)
	n, has := strings.CutPrefix(strings.TrimSuffix(uuid, "-"+of), "part")
	return is && id != "" && has && n != "" && strings.Trim(n, "0123456789") == "" && uuid == "part"+n+"-"+of
}

// opened are open block devices.
type opened []*os.File

// Close closes them.
func (o opened) Close() error {
	var errs []error
	for _, f := range o {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// drop drops what they have in memory.
func (o opened) drop() error {
	for _, f := range o {
		if err := unix.IoctlSetInt(int(f.Fd()), unix.BLKFLSBUF, 0); err != nil {
			return err
		}
	}
	return nil
}

// sync writes what they have in memory.
func (o opened) sync() error {
	for _, f := range o {
		if err := unix.Fsync(int(f.Fd())); err != nil {
			return err
		}
	}
	return nil
}
