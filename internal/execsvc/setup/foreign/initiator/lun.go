package initiator

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"errors"
)

const (
	// deviceWait is how long a disk may take to appear or to go, after the kernel was told.
	deviceWait = 15 * time.Second
	// newWait is how long udev may look at a disk that is new: it asks the target several times.
	newWait      = 15 * time.Second
	pollInterval = 50 * time.Millisecond
	// multipathUUID begins the UUID of a multipath device.
	multipathUUID = "mpath-"
)

var (
	hostName = regexp.MustCompile(`^host\d+$`)
	diskName = regexp.MustCompile(`^sd[a-z]{1,8}$`)
	mapName  = regexp.MustCompile(`^dm-\d+$`)
)

// path is a disk that is a logical unit of a session.
type path struct {
	// name is the disk's, "sda", and number its major:minor.
	name, number string
	// unit is the directory of the logical unit in sysfs, and dir that of the disk.
	unit, dir string
}

// wwid returns the identity of the logical unit; empty: it has none.
func (p *path) wwid() string {
	id, err := attribute(p.unit, "wwid")
	if err != nil {
		return ""
	}
	return id
}

// global are the beginnings of identities that no two disks have. Others may be those of disks of two servers.
var global = []string{"naa.", "eui."}

func isGlobal(wwid string) bool {
	return slices.ContainsFunc(global, func(prefix string) bool { return strings.HasPrefix(wwid, prefix) })
}

// unit returns the directory of a session's logical unit; empty: there is none.
func (l *live) unit(lun int) (string, error) {
	targets, err := names(l.dir)
	if err != nil {
		return "", err
	}
	for _, target := range targets {
		if !strings.HasPrefix(target, "target") {
			continue
		}
		units, err := names(l.dir, target)
		if err != nil {
			return "", err
		}
		for _, unit := range units {
			if strings.Count(unit, ":") == 3 && strings.HasSuffix(unit, fmt.Sprintf(":%d", lun)) {
				return filepath.Join(l.dir, target, unit), nil
			}
		}
	}
	return "", nil
}

// luns returns the directories of all logical units of a session.
func (l *live) luns() ([]string, error) {
	return filepath.Glob(filepath.Join(globEscaped(l.dir), "target*", "*:*:*:*"))
}

func globEscaped(path string) string {
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// errNoDisk is the error of a logical unit with other block devices, such as a CD-ROM.
var errNoDisk = errors.New("not one disk")

// disk returns the disk of a logical unit's directory; nil: it has none yet, or is none.
func disk(unit string) (*path, error) {
	all, err := names(unit, "block")
	if err != nil || len(all) == 0 {
		return nil, err
	}
	p := &path{name: all[0], unit: unit, dir: filepath.Join(unit, "block", all[0])}
	if len(all) != 1 || !diskName.MatchString(p.name) {
		return nil, fmt.Errorf("%s has the block devices %.100q, and %w", unit, all, errNoDisk)
	}
	p.number, err = attribute(p.dir, "dev")
	if errors.Is(err, fs.ErrNotExist) || err == nil && p.number == "" {
		return nil, nil
	}
	return p, err
}

// diskKinds are the SCSI types that the kernel has a disk for: direct-access, optical memory, reduced and zoned block devices.
var diskKinds = []string{"0", "7", "14", "20"}

// scan has the kernel look for one logical unit of a session, and waits for its disk. Others that the target has aren't the pod's.
func (h *Host) scan(l *live, lun int) (*path, error) {
	host := filepath.Base(filepath.Dir(l.dir))
	if !hostName.MatchString(host) {
		return nil, fmt.Errorf("%s isn't the session of a SCSI host", l.dir)
	}
	// Offloading adapters have one host for several sessions.
	target, err := attribute(h.sys("class", "iscsi_session", l.SID), "target_id")
	if err != nil || target == "" || strings.Trim(target, "0123456789") != "" {
		target = "0"
	}
	if err := write(fmt.Sprintf("0 %s %d", target, lun), h.sys("class", "scsi_host", host, "scan")); err != nil {
		return nil, fmt.Errorf("scan for logical unit %d of %v: %w", lun, l.Session, err)
	}
	var found *path
	err = poll(deviceWait, func() (bool, error) {
		unit, err := l.unit(lun)
		if err != nil || unit == "" {
			return false, err
		}
		if k := kind(unit); k != "" && !slices.Contains(diskKinds, k) {
			return false, fmt.Errorf("logical unit %d of %v has the SCSI type %.10s, and is not a disk", lun, l.Session, k)
		}
		found, err = disk(unit)
		return found != nil, err
	})
	if err == nil && found == nil {
		err = fmt.Errorf("%v has no disk with the logical unit number %d", l.Session, lun)
	}
	return found, err
}

// poll calls is until it is done, at most for that time.
func poll(most time.Duration, is func() (bool, error)) error {
	for end := time.Now().Add(most); ; time.Sleep(pollInterval) {
		if done, err := is(); done || err != nil || time.Now().After(end) {
			return err
		}
	}
}

// units returns the directories of a logical unit in the sessions.
func (h *Host) units(sessions []Session, lun int) ([]string, error) {
	var all []string
	for _, s := range sessions {
		l, err := h.own(s)
		if err != nil {
			return nil, err
		}
		if l == nil {
			continue
		}
		unit, err := l.unit(lun)
		if err != nil {
			return nil, err
		}
		if unit != "" {
			all = append(all, unit)
		}
	}
	return all, nil
}

// paths returns the disks of a logical unit in the sessions.
func (h *Host) paths(sessions []Session, lun int) ([]path, error) {
	units, err := h.units(sessions, lun)
	if err != nil {
		return nil, err
	}
	var all []path
	for _, unit := range units {
		p, err := disk(unit)
		if err != nil {
			return nil, err
		}
		if p != nil {
			all = append(all, *p)
		}
	}
	return all, nil
}

// multipath returns the multipath device that has the disk; empty: there is none.
func (h *Host) multipath(p *path) (string, error) {
	holders, err := names(p.dir, "holders")
	if err != nil {
		return "", err
	}
	for _, name := range holders {
		if !mapName.MatchString(name) {
			continue
		}
		uuid, err := attribute(h.sys("block", name, "dm", "uuid"))
		if err == nil && strings.HasPrefix(uuid, multipathUUID) {
			return name, nil
		}
	}
	return "", nil
}

// checkMultipath returns an error if a multipath device has a path that isn't one of these: it would be another disk, or one that
// a session of others has too.
func (h *Host) checkMultipath(name string, paths []path) error {
	slaves, err := names(h.sys("block", name, "slaves"))
	if err != nil {
		return err
	}
	for _, slave := range slaves {
		if !slices.ContainsFunc(paths, func(p path) bool { return p.name == slave }) {
			return fmt.Errorf("the multipath device %s has the path %s, which isn't one of this volume's sessions: it isn't used", name, slave)
		}
	}
	if len(slaves) == 0 {
		return fmt.Errorf("the multipath device %s has no path", name)
	}
	return nil
}

// targetOf returns the target of a logical unit's directory; empty: it isn't an iSCSI disk.
func (h *Host) targetOf(unit string) string {
	for dir := unit; dir != "/" && dir != "."; dir = filepath.Dir(dir) {
		if name := filepath.Base(dir); sessionName.MatchString(name) {
			target, err := attribute(h.sys("class", "iscsi_session", name, "targetname"))
			if err != nil {
				return ""
			}
			return target
		}
	}
	return ""
}

// twins returns the other disks of this machine with the same identity.
func (h *Host) twins(target string, paths []path) ([]path, error) {
	id := paths[0].wwid()
	if id == "" {
		return nil, nil
	}
	all, err := names(h.sys("block"))
	if err != nil {
		return nil, err
	}
	var twins []path
	for _, name := range all {
		if !diskName.MatchString(name) || slices.ContainsFunc(paths, func(p path) bool { return p.name == name }) {
			continue
		}
		unit, err := filepath.EvalSymlinks(h.sys("block", name, "device"))
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			return nil, err
		}
		p := path{name: name, unit: unit, dir: h.sys("block", name)}
		if p.wwid() != id || !isGlobal(id) && h.targetOf(unit) != target {
			continue
		}
		if p.number, err = attribute(p.dir, "dev"); err == nil {
			twins = append(twins, p)
		} else if !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	return twins, nil
}
