package initiator

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/blockdevice"
	"github.com/podstream/podstream/internal/openfile"
)

// Map links the disk in directories, and holds it with a tag: package blockdevice says why.
type Map struct {
	Disk  Disk   `json:"disk"`
	Tag   string `json:"tag"`
	Links []Link `json:"links"`
}

// Unmap undoes Map.
type Unmap struct {
	Tag   string `json:"tag"`
	Links []Link `json:"links"`
}

// Link is a symbolic link. Its directory is beneath Base, and no link leads there.
type Link struct {
	Base string `json:"base"`
	Dir  string `json:"dir"`
	Name string `json:"name"`
}

func (l Link) open() (*os.File, error) { return openfile.OpenDirBeneath(l.Base, l.Dir) }

func (m *Map) do() error {
	f, err := m.Disk.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	dev, err := os.Open(filepath.Dir(m.Disk.Path()))
	if err != nil {
		return err
	}
	defer dev.Close()
	device, err := blockdevice.At(dev, m.Disk.Name)
	if err != nil {
		return err
	}
	defer func() { _ = device.Close() }()
	if device.Number.String() != m.Disk.Number {
		return fmt.Errorf("%s is device %v now, and not %s", device.Path, device.Number, m.Disk.Number)
	}
	if err := device.Hold(m.Tag); err != nil {
		return err
	}
	for _, l := range m.Links {
		dir, err := l.open()
		if err != nil {
			return err
		}
		err = device.Link(dir, l.Name)
		if err := errors.Join(err, dir.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (u *Unmap) do() error {
	for _, l := range u.Links {
		dir, err := l.open()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		err = blockdevice.Unlink(dir, l.Name)
		if errors.Is(err, blockdevice.ErrNoLink) {
			err = nil // The clean-up of the pod's directory reports it.
		}
		if err = errors.Join(err, dir.Close()); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return blockdevice.Release(u.Tag)
}
