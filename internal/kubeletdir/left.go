package kubeletdir

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/openfile"
)

const (
	// volumesName and devicesName are the directories of volumes in a pod's directory: of file systems and of block devices.
	volumesName, devicesName = "volumes", "volumeDevices"
	// inTree is the directory of the kubelet's own plugins in that of plugins. A plugin whose name is escaped has inTreeEscaped.
	inTree, inTreeEscaped = "kubernetes.io", "kubernetes.io~"
	// csiName is the directory of CSI drivers' volumes in inTree.
	csiName = "csi"
	// deviceVolumes has no driver's volumes, though it lies beside the drivers' directories.
	deviceVolumes = inTree + "/" + csiName + "/" + devicesName
)

// stagedVolumes are the directories in which the kubelet has one for each volume of a CSI driver, in the directory of plugins: staged
// ones, by driver, and staged and published block devices.
var stagedVolumes = []string{inTree + "/" + csiName + "/*", deviceVolumes + "/staging", deviceVolumes + "/publish"}

// ephemeral are the plugins whose volumes are nowhere but in the pod's directory: nothing is attached for them. All other ones count,
// also those that Podstream lacks, and FlexVolumes.
var ephemeral = []string{
	inTreeEscaped + "configmap", inTreeEscaped + "downward-api", inTreeEscaped + "empty-dir", inTreeEscaped + "git-repo",
	inTreeEscaped + "host-path", inTreeEscaped + "image", inTreeEscaped + "projected", inTreeEscaped + "secret",
}

// PodVolume is a volume in a pod's directory.
type PodVolume struct {
	UID types.UID
	// Plugin is the plugin's name, "kubernetes.io/csi", and Name that of the volume's directory.
	Plugin, Name string
}

// Recorded are the volumes of which podexecd has records.
type Recorded struct {
	Pods map[PodVolume]bool
	// Staged are the paths at which, or below which, volumes are mounted for all pods. They are relative to the directory of plugins.
	Staged []string
}

// leftVolumes returns an error if dir has a volume that isn't ephemeral. The caller has no record of one: another agent set it up. It
// may be mounted, and attached; podexecd could neither undo that, nor would it stay in the Node's volumesInUse.
func leftVolumes(dir string) error {
	s := newSearch(Plugins(dir))
	for _, pattern := range stagedVolumes {
		if err := s.noneIn(pattern); err != nil {
			return err
		}
	}
	if err := s.noneStaged(); err != nil {
		return err
	}
	return CheckVolumes(dir, Recorded{})
}

// CheckVolumes returns an error if a pod in --kubelet-dir has a volume that isn't ephemeral, or if one is mounted for all pods, and
// podexecd has no record of it: a kubelet ran here since podexecd ended. A directory without files is no volume: podexecd leaves some until
// the pod ends. A kubelet writes vol_data.json for each volume of a CSI driver, also if the driver mounts nothing.
func CheckVolumes(dir string, recorded Recorded) error {
	s := newSearch(PodsDir(dir))
	uids, err := s.list(".")
	if err != nil {
		return err
	}
	for _, uid := range uids {
		for _, kind := range []string{volumesName, devicesName} {
			if err := s.nonePublished(uid, kind, recorded.Pods); err != nil {
				return err
			}
		}
	}
	return noneMounted(Plugins(dir), recorded.Staged)
}

// nonePublished returns an error if the pod's directory has a volume that isn't recorded.
func (s *search) nonePublished(uid, kind string, recorded map[PodVolume]bool) error {
	plugins, err := s.list(filepath.Join(uid, kind))
	if err != nil {
		return err
	}
	for _, plugin := range plugins {
		if kind == volumesName && slices.Contains(ephemeral, plugin) {
			continue
		}
		names, err := s.list(filepath.Join(uid, kind, plugin))
		if err != nil {
			return err
		}
		for _, name := range names {
			if recorded[PodVolume{types.UID(uid), strings.ReplaceAll(plugin, "~", "/"), name}] {
				continue
			}
			at := filepath.Join(uid, kind, plugin, name)
			unused, err := s.isUnused(at)
			if err != nil {
				return err
			}
			if !unused {
				return s.left(at)
			}
		}
	}
	return nil
}

// noneIn returns an error if the directory has a volume. A * at its end stands for each driver's directory.
func (s *search) noneIn(directory string) error {
	parent, each := strings.CutSuffix(directory, "/*")
	found, err := s.list(parent)
	switch {
	case err != nil || len(found) == 0:
		return err
	case !each:
		return s.left(filepath.Join(directory, found[0]))
	}
	for _, driver := range found {
		if at := filepath.Join(parent, driver); at != deviceVolumes {
			if err := s.noneIn(at); err != nil {
				return err
			}
		}
	}
	return nil
}

// noneStaged returns an error if the directory of an in-tree plugin has more than directories: that of a disk has a file about its
// session, or is mounted, and a block device is a file or a link.
func (s *search) noneStaged() error {
	top, err := s.list(".")
	if err != nil {
		return err
	}
	for _, name := range top {
		if name != inTree && !strings.HasPrefix(name, inTreeEscaped) {
			continue
		}
		plugins, err := s.list(name)
		if err != nil {
			return err
		}
		for _, plugin := range plugins {
			if name == inTree && plugin == csiName {
				continue
			}
			if err := s.onlyDirectories(filepath.Join(name, plugin), maxDepth); err != nil {
				return err
			}
		}
	}
	return nil
}

// onlyDirectories returns an error if the path isn't a directory, or has anything but directories, for so many levels. A plugin's socket
// is no volume.
func (s *search) onlyDirectories(at string, levels int) error {
	found, err := s.read(at)
	switch {
	case errors.Is(err, errNoDirectory) && s.isSocket(at):
		return nil
	case errors.Is(err, errNoDirectory), errors.Is(err, openfile.ErrOutside), err == nil && levels == 0:
		return s.left(at)
	case err != nil:
		return err
	}
	for _, name := range found {
		if err := s.onlyDirectories(filepath.Join(at, name), levels-1); err != nil {
			return err
		}
	}
	return nil
}

// left is the error of a volume.
func (s *search) left(at string) error {
	return errLeft(filepath.Join(s.base, at))
}

func errLeft(path string) error {
	return fmt.Errorf("--kubelet-dir: %s is of a volume that a kubelet, or another podexecd, set up; this one has no record of it; "+
		"start the kubelet, drain the node, and then start podexecd; if there is no such agent any more, unmount the volume, and remove "+
		"this path: a directory must be empty then", path)
}
