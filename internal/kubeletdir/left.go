package kubeletdir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/openfile"
)

// csiVolumes are the directories in which the kubelet has one for each volume of a CSI driver: staged volumes, by driver, block
// devices, and the volumes of pods.
var csiVolumes = []string{
	"plugins/kubernetes.io/csi/*/",
	"plugins/kubernetes.io/csi/volumeDevices/staging/",
	"plugins/kubernetes.io/csi/volumeDevices/publish/",
	"pods/*/" + podsMounts,
	"pods/*/" + podsDevices,
}

// The directories of volumes and of block devices in a pod's directory.
const (
	podsMounts  = "volumes/kubernetes.io~csi/"
	podsDevices = "volumeDevices/kubernetes.io~csi/"
)

// noVolumes are directories that plugins/kubernetes.io/csi/*/ finds, and that aren't volumes: csiVolumes has what is in them.
var noVolumes = map[string]bool{
	"plugins/kubernetes.io/csi/volumeDevices/staging": true,
	"plugins/kubernetes.io/csi/volumeDevices/publish": true,
}

// leftVolumes is the error if dir has a volume of a CSI driver. The caller has no record of one: another agent set it up. It may be
// mounted, and attached; podexecd could neither undo that, nor would it stay in the Node's volumesInUse.
func leftVolumes(dir string) error {
	for _, pattern := range csiVolumes {
		found, err := find(dir, ".", pattern)
		if err != nil {
			return fmt.Errorf("--kubelet-dir: look for volumes that the kubelet left: %w", err)
		}
		if found == "" {
			continue
		}
		return unrecorded(filepath.Join(dir, found))
	}
	return nil
}

// unrecorded is the error for a volume of which podexecd has no record.
func unrecorded(path string) error {
	return fmt.Errorf("--kubelet-dir: %s is a volume of a CSI driver that a kubelet, or another podexecd, set up; this one has no record of it; "+
		"start the kubelet, drain the node, and then start podexecd; if there is no such agent any more, unmount the volume and remove "+
		"its directory, which must be empty then", path)
}

// CheckVolumes returns an error if a pod in --kubelet-dir has volumes of CSI drivers, and isn't one of those of which podexecd has
// records: a kubelet ran here since podexecd ended.
func CheckVolumes(dir string, recorded map[types.UID]bool) error {
	uids, err := Pods{Current: PodsDir(dir)}.List()
	if err != nil {
		return err
	}
	for _, uid := range uids {
		if recorded[uid] {
			continue
		}
		for _, pattern := range []string{podsMounts, podsDevices} {
			found, err := find(dir, filepath.Join(podsName, string(uid)), pattern)
			if err != nil {
				return fmt.Errorf("--kubelet-dir: look for volumes that the kubelet left: %w", err)
			}
			if found != "" {
				return unrecorded(filepath.Join(dir, found))
			}
		}
	}
	return nil
}

// find returns the first directory or file in a directory that the pattern selects, relative to dir; "" if there is none. It follows
// no link, and doesn't look into mounts.
func find(dir, at, pattern string) (string, error) {
	for pattern != "" {
		element, rest, _ := strings.Cut(pattern, "/")
		if element == "*" {
			names, err := list(dir, at)
			for _, name := range names {
				found, err := find(dir, filepath.Join(at, name), rest)
				if found != "" || err != nil {
					return found, err
				}
			}
			return "", err
		}
		at, pattern = filepath.Join(at, element), rest
	}
	names, err := list(dir, at)
	for _, name := range names {
		if path := filepath.Join(at, name); !noVolumes[path] {
			return path, err
		}
	}
	return "", err
}

// list returns the names in the directory at in dir. There are none if it isn't a directory on this mount.
func list(dir, at string) ([]string, error) {
	f, err := openfile.OpenDirBeneath(dir, at)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR), errors.Is(err, openfile.ErrOutside):
		return nil, nil
	case err != nil:
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}
