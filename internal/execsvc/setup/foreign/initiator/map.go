package initiator

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/blockdevice"
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

// Link is a symbolic link.
type Link = blockdevice.Place

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
	return device.Map(m.Tag, m.Links)
}

func (u *Unmap) do() error { return blockdevice.Unmap(u.Tag, u.Links) }
