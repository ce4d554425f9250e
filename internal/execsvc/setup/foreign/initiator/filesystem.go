package initiator

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"k8s.io/mount-utils"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/blockdevice"
)

const (
	// edge is how much of a disk's beginning and end is read before it is formatted.
	edge = 1 << 20
	// diskLimit is the limit of a check and of a format. The caller has a shorter one, if it has one.
	diskLimit = 24 * time.Hour
	// probeLimit is that of blkid.
	probeLimit = 5 * time.Minute
	// The exit codes of blkid and fsck.
	exitNothing     = 2
	exitUncorrected = 4
)

// Mount checks, and if it is blank formats, the disk, and mounts it. For a read-only mount nothing is checked or
// formatted; the file system may still replay its journal, as ext4 and xfs do.
func (d *Disk) Mount(target, fsType string, options []string) error {
	f, err := d.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	if err := blockdevice.CheckFSType(fsType); err != nil {
		return err
	}
	if slices.Contains(options, "ro") {
		err = d.checkContent(fsType)
	} else {
		err = d.prepare(f, fsType)
	}
	if err != nil {
		return err
	}
	if err := mount.New("").MountSensitiveWithoutSystemd(d.Path(), target, fsType, options, nil); err != nil {
		return err
	}
	// The last check was before the mount.
	return d.check()
}

// prepare checks the file system, or makes one on a blank disk.
func (d *Disk) prepare(f *os.File, fsType string) error {
	free, err := d.Host.awaitFree(newWait, d.Name, d.Number)
	if err != nil {
		return err
	}
	// Another node may have written to the disk since this one has read from it.
	if err := errors.Join(free.drop(), free.Close()); err != nil {
		return fmt.Errorf("drop what the disk %s has in memory: %w", d.Name, err)
	}
	has, err := probe(d.Path())
	if err != nil {
		return err
	}
	switch content := typeOf(has); {
	case content != "":
		if err := blockdevice.CheckContent(content, fsType); err != nil {
			return fmt.Errorf("%s: %w", d.Name, err)
		}
		return d.repair()
	case has != "":
		return fmt.Errorf("the disk %s isn't formatted, as it has other content than a file system: %s", d.Name, shown(has))
	}
	if err := checkBlank(f); err != nil {
		return fmt.Errorf("the disk %s isn't formatted: %w", d.Name, err)
	}
	return d.format(fsType)
}

// checkContent returns an error unless the disk has a file system of the type.
func (d *Disk) checkContent(fsType string) error {
	has, err := probe(d.Path())
	if err != nil {
		return err
	}
	content := typeOf(has)
	if content == "" {
		return fmt.Errorf("the disk %s has no file system that blkid knows, and isn't formatted, as it is read-only", d.Name)
	}
	if err := blockdevice.CheckContent(content, fsType); err != nil {
		return fmt.Errorf("%s: %w", d.Name, err)
	}
	return nil
}

// typeOf returns the type of the content in the result of probe; empty: there is none.
func typeOf(has string) string {
	_, after, _ := strings.Cut(has, "\nTYPE=")
	content, _, _ := strings.Cut(after, "\n")
	return content
}

// probe returns what blkid finds on the device, a line for each property after an empty line; empty: it finds nothing.
func probe(device string) (string, error) {
	r, err := call(probeLimit, "blkid", "-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "export", device)
	switch {
	case err != nil:
		return "", fmt.Errorf("blkid %s: %w", device, err)
	case r.code == exitNothing:
		return "", nil
	case r.code != 0:
		return "", fmt.Errorf("blkid %s: %w", device, &exitError{r})
	}
	return "\n" + strings.TrimSpace(r.out) + "\n", nil
}

// errContent is the error of a disk with content that blkid doesn't know.
var errContent = errors.New("it has content, of no file system that blkid knows; if it isn't needed, write zeros to its first and last MiB")

// checkBlank returns an error unless the beginning and the end of the device can be read, and are zero. blkid finds nothing on a
// device that it can't read either.
func checkBlank(f *os.File) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if size == 0 {
		return errors.New("it has no size")
	}
	buffer := make([]byte, min(edge, size))
	for _, at := range []int64{0, size - int64(len(buffer))} {
		if _, err := f.ReadAt(buffer, at); err != nil {
			return fmt.Errorf("it can't be read: %w", err)
		}
		if slices.ContainsFunc(buffer, func(b byte) bool { return b != 0 }) {
			return errContent
		}
	}
	return nil
}

// format makes a file system, as the kubelet does.
func (d *Disk) format(fsType string) error {
	args := []string{d.Path()}
	switch fsType {
	case "ext3", "ext4":
		args = []string{"-F", "-m0", d.Path()}
	case "xfs":
		args = []string{"-f", d.Path()}
	}
	r, err := call(diskLimit, "mkfs."+fsType, args...)
	if err == nil && r.code != 0 {
		err = &exitError{r}
	}
	if err != nil {
		return fmt.Errorf("format the disk %s: mkfs.%s: %w", d.Name, fsType, err)
	}
	return nil
}

// repair checks the file system, and corrects what can be corrected safely. Without fsck it is only mounted, as with the kubelet.
func (d *Disk) repair() error {
	r, err := call(diskLimit, "fsck", "-a", d.Path())
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("check the disk %s: fsck: %w", d.Name, err)
	case r.code == exitUncorrected:
		return fmt.Errorf("'fsck' found errors on device %s but could not correct them: %s", d.Path(), shown(r.out))
	}
	return nil
}
