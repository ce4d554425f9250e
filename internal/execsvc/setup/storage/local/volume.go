package local

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/podmount"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
	"github.com/podstream/podstream/internal/kubeletdir"
)

const (
	// BackendName is the name of the backend in the Traits of volumes, and of records.
	BackendName = "local"
	// PluginName is upstream's name of the plugin.
	PluginName = "kubernetes.io/local-volume"
	// defaultFSType is upstream's file system of a block device.
	defaultFSType = "ext4"
)

// use is how a volume is mounted.
type use struct {
	// Path is the PersistentVolume's, and KubeletDir --kubelet-dir when it was resolved.
	Path       string   `json:"path"`
	KubeletDir string   `json:"kubeletDir"`
	ReadOnly   bool     `json:"readOnly,omitempty"`
	Options    []string `json:"options,omitempty"`
	// Device is set if the volume is the block device itself.
	Device bool `json:"device,omitempty"`
}

// stageArgs are the StageArgs of a volume.
type stageArgs struct {
	use
	FSType string `json:"fsType"`
}

// publishArgs are the PublishArgs of a volume.
type publishArgs struct {
	use
	// Group is the pod's fsGroup, if the volume is changed to it.
	Group        *int64                    `json:"group,omitempty"`
	ChangePolicy v1.PodFSGroupChangePolicy `json:"changePolicy,omitempty"`
}

// Persistent returns the volume of a PersistentVolume whose source is local.
func Persistent(kubeletDir string, pod *v1.Pod, spec *v1.Volume, pv *v1.PersistentVolume) (storage.Volume, error) {
	path := pv.Spec.Local.Path
	switch {
	case path == "":
		return storage.Volume{}, errors.New("local volume source is nil or local path is not set")
	case slices.Contains(strings.Split(path, "/"), ".."):
		return storage.Volume{}, fmt.Errorf("invalid path: %s must not contain '..'", path)
	case !filepath.IsAbs(path):
		return storage.Volume{}, fmt.Errorf("invalid path: %s must be absolute", path)
	}
	u := use{Path: filepath.Clean(path), KubeletDir: kubeletDir, Options: podmount.Options(pv)}
	u.Device = ptr.Deref(pv.Spec.VolumeMode, v1.PersistentVolumeFilesystem) == v1.PersistentVolumeBlock
	u.ReadOnly = spec.PersistentVolumeClaim != nil && spec.PersistentVolumeClaim.ReadOnly
	publish := publishArgs{use: u}
	if sc := pod.Spec.SecurityContext; sc != nil && !u.ReadOnly && !u.Device {
		publish.Group, publish.ChangePolicy = sc.FSGroup, ptr.Deref(sc.FSGroupChangePolicy, "")
	}
	stage := stageArgs{use: u, FSType: cmp.Or(ptr.Deref(pv.Spec.Local.FSType, ""), defaultFSType)}
	stageText, err := json.Marshal(stage)
	if err != nil {
		return storage.Volume{}, err
	}
	publishText, err := json.Marshal(publish)
	if err != nil {
		return storage.Volume{}, err
	}
	return storage.Volume{
		Key: record.Key{Driver: PluginName, Handle: pv.Name}, Traits: record.Traits{Backend: BackendName, Stages: true},
		Plugin: PluginName, Name: pv.Name, ReadOnly: u.ReadOnly, Device: u.Device, FSGroup: publish.Group, Exact: true,
		StageArgs: string(stageText), PublishArgs: string(publishText),
	}, nil
}

// decode reads recorded arguments.
func decode(text string, args any) error {
	if err := json.Unmarshal([]byte(text), args); err != nil {
		return notSent(fmt.Errorf("read the recorded arguments of the volume: %w", err))
	}
	return nil
}

// unrepeatable is the error of a call that wasn't made, and may never be possible again.
func unrepeatable(err error) error { return &storage.Error{Outcome: storage.Unrepeatable, Err: err} }

// notSent is the error of a call that wasn't made.
func notSent(err error) error { return &storage.Error{Outcome: storage.NotSent, Err: err} }

// staged returns where a block device is mounted, or, if it is the volume itself, where the links to it are: a directory of
// --kubelet-dir, and a path beneath it.
func (u *use) staged(k record.Key) (base, name string) {
	if u.Device {
		return kubeletdir.Plugins(u.KubeletDir), filepath.Join(strings.ReplaceAll(PluginName, "/", "~"), podmount.VolumeDevices, k.Handle)
	}
	return kubeletdir.Plugins(u.KubeletDir), filepath.Join(PluginName, "mounts", k.Handle)
}
