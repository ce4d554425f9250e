package initiator

import (
	"fmt"
	"os"
	"slices"
)

// Disk is a disk of the caller's sessions.
type Disk struct {
	Host     Host      `json:"host,omitzero"`
	Sessions []Session `json:"sessions"`
	LUN      int       `json:"lun"`
	// Name is its name in /dev, and Number its major:minor.
	Name   string `json:"name"`
	Number string `json:"number"`
}

// Path returns its file.
func (d *Disk) Path() string { return d.Host.dev(d.Name) }

// Open opens the disk, and checks that it is the logical unit of the sessions. While it is open, no other disk gets its number.
func (d *Disk) Open() (*os.File, error) {
	if !diskName.MatchString(d.Name) && !mapName.MatchString(d.Name) {
		return nil, fmt.Errorf("%.100q isn't the name of a disk", d.Name)
	}
	f, err := d.Host.open(d.Name, d.Number, 0)
	if err != nil {
		return nil, err
	}
	if err := d.check(); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func (d *Disk) check() error {
	paths, err := d.Host.paths(d.Sessions, d.LUN)
	if err != nil {
		return err
	}
	if mapName.MatchString(d.Name) {
		number, err := attribute(d.Host.sys("block", d.Name, "dev"))
		if err == nil && number != d.Number {
			err = fmt.Errorf("%s is device %s now, and not %s", d.Name, number, d.Number)
		}
		if err != nil {
			return err
		}
		return d.Host.checkMultipath(d.Name, paths)
	}
	if !slices.ContainsFunc(paths, func(p path) bool { return p.name == d.Name && p.number == d.Number }) {
		return fmt.Errorf("%s (%s) isn't logical unit %d of the sessions of this volume", d.Name, d.Number, d.LUN)
	}
	return nil
}
