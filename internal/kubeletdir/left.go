package kubeletdir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/openfile"
)

// The directories in which the kubelet has one for each volume of a CSI driver: in a pod's directory those of file systems and
// of block devices; in the directory of plugins those of staged volumes, by driver, and of staged and published block devices.
var (
	podVolumes    = []string{"volumes/kubernetes.io~csi", "volumeDevices/kubernetes.io~csi"}
	stagedVolumes = []string{"kubernetes.io/csi/*", deviceVolumes + "/staging", deviceVolumes + "/publish"}
)

// deviceVolumes has no driver's volumes, though it lies beside the drivers' directories.
const deviceVolumes = "kubernetes.io/csi/volumeDevices"

// maxNames bounds the names that are read of one directory: a driver's container can make more of them.
const maxNames = 16 << 10

// leftVolumes returns an error if dir has a volume of a CSI driver. The caller has no record of one: another agent set it up. It may be
// mounted, and attached; podexecd could neither undo that, nor would it stay in the Node's volumesInUse.
func leftVolumes(dir string) error {
	for _, pattern := range stagedVolumes {
		if err := noneIn(Plugins(dir), pattern); err != nil {
			return err
		}
	}
	return CheckVolumes(dir, nil)
}

// CheckVolumes returns an error if a pod in --kubelet-dir has volumes of CSI drivers, and isn't one of those of which podexecd has
// records: a kubelet ran here since podexecd ended.
func CheckVolumes(dir string, recorded map[types.UID]bool) error {
	uids, err := list(PodsDir(dir), ".")
	if err != nil {
		return err
	}
	for _, uid := range uids {
		for _, volumes := range podVolumes {
			if recorded[types.UID(uid)] {
				continue
			}
			if err := noneIn(PodsDir(dir), filepath.Join(uid, volumes)); err != nil {
				return err
			}
		}
	}
	return nil
}

// noneIn returns an error if the directory below base has a volume. A * at its end stands for each driver's directory.
func noneIn(base, directory string) error {
	parent, each := strings.CutSuffix(directory, "/*")
	found, err := list(base, parent)
	switch {
	case err != nil || len(found) == 0:
		return err
	case !each:
		return fmt.Errorf("--kubelet-dir: %s is a volume of a CSI driver that a kubelet, or another podexecd, set up; this one has no record of it; "+
			"start the kubelet, drain the node, and then start podexecd; if there is no such agent any more, unmount the volume and remove "+
			"its directory, which must be empty then", filepath.Join(base, directory, found[0]))
	}
	for _, driver := range found {
		if at := filepath.Join(parent, driver); at != deviceVolumes {
			if err := noneIn(base, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// list returns the names in a directory below base, which is trusted. There are none if it doesn't exist, or isn't a directory. A
// link, a mount, and more than maxNames are errors: what is there can't be told.
func list(base, directory string) ([]string, error) {
	f, err := openfile.OpenDirBeneath(base, directory)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("--kubelet-dir: it can't be told whether a kubelet left volumes of CSI drivers: %w", err)
	}
	defer f.Close()
	found, err := f.Readdirnames(maxNames + 1)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, fmt.Errorf("--kubelet-dir: look for volumes that a kubelet left: %w", err)
	case len(found) > maxNames:
		return nil, fmt.Errorf("--kubelet-dir: %s has more than %d files; remove those that are no volumes, then start podexecd again", f.Name(), maxNames)
	}
	return found, nil
}
