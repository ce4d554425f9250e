package initiator

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Detach removes a logical unit of the sessions from the machine, whatever it is, if nothing uses it. The sessions stay.
type Detach struct {
	// Sessions have SIDs, but those to which the caller's login has had no answer.
	Sessions []Session `json:"sessions"`
	LUN      int       `json:"lun"`
}

const (
	// flushLimit is the limit of multipath -f.
	flushLimit = 30 * time.Second
	// busyWait is how long a disk may be in use for a moment after an unmount.
	busyWait = 3 * time.Second
)

func (d *Detach) do(h *Host) error {
	var sessions []Session
	for _, s := range d.Sessions {
		_, err := h.own(s)
		if _, other := errors.AsType[*NotOwnError](err); other {
			continue // The caller's is gone, and so are its disks.
		}
		if err != nil {
			return err
		}
		sessions = append(sessions, s)
	}
	units, err := h.units(sessions, d.LUN)
	if err != nil {
		return err
	}
	var paths []path
	for _, unit := range units {
		p, err := disk(unit)
		if errors.Is(err, errNoDisk) {
			continue // The target has something else there than a disk.
		}
		if err != nil {
			return err
		}
		if p != nil {
			paths = append(paths, *p)
		}
	}
	if err := h.flushMultipath(paths); err != nil {
		return err
	}
	for _, unit := range units {
		if err := h.remove(unit); err != nil {
			return err
		}
	}
	return nil
}

// flushMultipath removes the multipath devices of the paths, with the maps of their partitions: the pod may have made some.
func (h *Host) flushMultipath(paths []path) error {
	done := map[string]bool{}
	for _, p := range paths {
		name, err := h.multipath(&p)
		if err != nil {
			return err
		}
		if name == "" || done[name] {
			continue
		}
		if err := h.checkMultipath(name, paths); err != nil {
			return err
		}
		maps, err := h.partitionMaps(name)
		if err != nil {
			return err
		}
		if err := h.flush(name, maps...); err != nil {
			return err
		}
		// multipath knows its maps by their own names.
		mapped, err := attribute(h.sys("block", name, "dm", "name"))
		if err == nil && (mapped == "" || strings.HasPrefix(mapped, "-")) {
			err = fmt.Errorf("it has the name %.100q", mapped)
		}
		if err != nil {
			return fmt.Errorf("the multipath device %s: %w", name, err)
		}
		r, err := call(flushLimit, cmp.Or(h.Multipath, "multipath"), "-f", mapped)
		if err == nil && r.code != 0 {
			err = &exitError{r}
		}
		if err != nil {
			return fmt.Errorf("multipath -f %s: %w", mapped, err)
		}
		done[name] = true
	}
	return nil
}

// flush writes what a block device, and the maps of its partitions, have in memory, if nothing uses them.
func (h *Host) flush(name string, maps ...device) error {
	number, err := attribute(h.sys("block", name, "dev"))
	if err != nil {
		return err
	}
	files, err := h.awaitFree(busyWait, name, number, maps...)
	if errors.Is(err, unix.ENXIO) && h.isLost(name) {
		// The kernel has failed all that was to be written.
		return h.unmounted(name, number, maps...)
	}
	if err != nil {
		return err
	}
	if mapName.MatchString(name) && h.isLost(name) {
		// A multipath device can be opened without its paths. Each write of it fails, or waits for one of them.
		return errors.Join(h.unmounted(name, number, maps...), files.Close())
	}
	err = files.sync()
	if err == nil {
		err = files.drop()
	}
	if err = errors.Join(err, files.Close()); err != nil {
		return fmt.Errorf("write the rest of what the disk %s has in memory: %w", name, err)
	}
	return nil
}

// awaitFree is free of a disk at which udev may look for a moment, after an unmount or as it is new.
func (h *Host) awaitFree(most time.Duration, name, number string, maps ...device) (files opened, err error) {
	_ = poll(most, func() (bool, error) {
		files, err = h.free(name, number, maps...)
		_, busy := errors.AsType[*InUseError](err)
		return !busy, nil
	})
	return files, err
}

// remove removes a logical unit. Its directory in sysfs lies beneath its session's, so it is no other one's.
func (h *Host) remove(unit string) error {
	blocks, err := names(unit, "block")
	if err != nil {
		return err
	}
	for _, name := range blocks {
		if err := h.flush(name); err != nil {
			return err
		}
	}
	if err := h.unopened(unit); err != nil {
		return err
	}
	name := filepath.Base(unit)
	if len(blocks) > 0 {
		name = strings.Join(blocks, ", ")
	}
	if err := write("1", unit, "delete"); err != nil {
		return fmt.Errorf("remove the disk %s: %w", name, err)
	}
	gone := false
	err = poll(deviceWait, func() (bool, error) {
		_, err := os.Lstat(unit)
		if gone = errors.Is(err, fs.ErrNotExist); gone {
			err = nil
		}
		return gone, err
	})
	if err == nil && !gone {
		err = fmt.Errorf("the disk %s was removed, and is still there", name)
	}
	return err
}

// unopened returns an InUseError if a process has a character device of the logical unit open: a tape's, or that of all types, sg.
func (h *Host) unopened(unit string) error {
	all, err := filepath.Glob(filepath.Join(globEscaped(unit), "*", "*", "dev"))
	if err != nil {
		return err
	}
	for _, at := range all {
		dir := filepath.Dir(at)
		if filepath.Base(filepath.Dir(dir)) == "block" {
			continue
		}
		number, err := attribute(at)
		if err != nil {
			return err
		}
		name := filepath.Base(dir)
		_, pid, err := h.openedBy(unix.S_IFCHR, []device{{name, number, dir}})
		if err != nil {
			return err
		}
		if pid != "" {
			return &InUseError{name, fmt.Sprintf("process %s has it open", pid)}
		}
	}
	return nil
}
