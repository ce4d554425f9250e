package blockdevice

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/openfile"
)

// Place is where a symbolic link to a device is. Its directory is beneath Base, and no link leads there.
type Place struct {
	Base string `json:"base"`
	Dir  string `json:"dir"`
	Name string `json:"name"`
}

func (p Place) open() (*os.File, error) { return openfile.OpenDirBeneath(p.Base, p.Dir) }

// TagOf returns the tag of the device that is published at a path.
func TagOf(path string) string {
	sum := sha256.Sum256([]byte(path))
	return fmt.Sprintf("podstream-%x", sum[:24])
}

// Map holds the device with the tag, and then makes the links to it. Their directories must be there.
func (d *Device) Map(tag string, links []Place) error {
	if err := d.Hold(tag); err != nil {
		return err
	}
	for _, l := range links {
		dir, err := l.open()
		if err != nil {
			return err
		}
		err = d.Link(dir, l.Name)
		if err := errors.Join(err, dir.Close()); err != nil {
			return err
		}
	}
	return nil
}

// MapPath is Map of the device to which a path leads (Follow). Between the look at the path and the hold, the device could go, and another
// get its number: so it is opened, which keeps its number, and then the path must still lead to it.
func MapPath(path, tag string, links []Place) error {
	d, err := Follow(path)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	f, err := d.open()
	if err != nil {
		return err
	}
	defer f.Close()
	now, err := Follow(path)
	if err != nil {
		return err
	}
	defer func() { _ = now.Close() }()
	if now.Number != d.Number {
		return fmt.Errorf("%s is device %v now, and was %v when it was looked at", path, now.Number, d.Number)
	}
	return d.Map(tag, links)
}

// Unmap undoes Map: it removes the links, in their order, and then releases the device. What isn't a link is left.
func Unmap(tag string, links []Place) error {
	for _, l := range links {
		dir, err := l.open()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		err = Unlink(dir, l.Name)
		if errors.Is(err, ErrNoLink) {
			err = nil // The clean-up of the pod's directory reports it.
		}
		if err = errors.Join(err, dir.Close()); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return Release(tag)
}

// CheckMapped returns an error unless the device is the one that is held with the tag, and the link leads to it.
func (d *Device) CheckMapped(tag string, link Place) error {
	dir, err := link.open()
	if err != nil {
		return err
	}
	defer dir.Close()
	const again = "delete the pod, and create it again"
	switch held, is, err := Held(tag); {
	case err != nil:
		return err
	case !d.IsLinked(dir, link.Name):
		return fmt.Errorf("%s/%s isn't the link to %s that was made: %s", dir.Name(), link.Name, d.Path, again)
	case !is:
		return fmt.Errorf("no loop device holds %s (%v) any more, so it may be another device: %s", d.Path, d.Number, again)
	case held != d.Number:
		return fmt.Errorf("%s is device %v now, and %v was published: %s", d.Path, d.Number, held, again)
	}
	return nil
}
