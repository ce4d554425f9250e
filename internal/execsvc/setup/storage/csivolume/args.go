package csivolume

import (
	"encoding/json"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/podstream/podstream/internal/execsvc/setup/csi"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/selinuxmount"
)

// use is how a volume is mounted, which is the same for its stage and its publications.
type use struct {
	// KubeletDir is --kubelet-dir when the volume was resolved: the paths of its calls begin with it.
	KubeletDir string                        `json:"kubeletDir"`
	AccessMode v1.PersistentVolumeAccessMode `json:"accessMode"`
	// Device is the name of the PersistentVolume if it is a block volume, and part of its paths; empty: it is a file system.
	// The fields FSType, MountOptions, SELinuxContext and MountGroup are empty then.
	Device string `json:"device,omitempty"`
	// FSType is empty for the driver's default.
	FSType       string   `json:"fsType,omitempty"`
	MountOptions []string `json:"mountOptions,omitempty"`
	// SELinuxContext is the context with which the volume is mounted; empty: none.
	SELinuxContext string `json:"seLinuxContext,omitempty"`
	// MountGroup is the pod's fsGroup if the driver applies it.
	MountGroup *int64 `json:"mountGroup,omitempty"`
	// VolumeContext are the attributes of the volume, and what the driver wants to know of the pod.
	VolumeContext map[string]string `json:"volumeContext,omitempty"`
	// Migrated is set for a volume of an in-tree plugin that moved to CSI. Only the metric of calls has it.
	Migrated bool `json:"migrated,omitempty"`
	// Secret is that of the call.
	Secret *secretRef `json:"secret,omitempty"`
}

// access returns the use as package csi has it.
func (u *use) access() csi.Access {
	return csi.Access{Mode: u.AccessMode, Block: u.Device != "", FSType: u.FSType, MountFlags: u.MountOptions, FSGroup: u.MountGroup}
}

// mount returns the use with the option of the SELinux context, which is the last one, as with the kubelet. An expansion
// doesn't have it.
func (u *use) mount() csi.Access {
	a := u.access()
	if u.SELinuxContext != "" {
		a.MountFlags = append(slices.Clone(a.MountFlags), selinuxmount.Option(u.SELinuxContext))
	}
	return a
}

// stageArgs are the StageArgs of a volume.
type stageArgs struct{ use }

// publishArgs are the PublishArgs of a volume.
type publishArgs struct {
	use
	Mode storagev1.VolumeLifecycleMode `json:"mode"`
	// Namespace, Pod and ServiceAccount are the pod's.
	Namespace      string `json:"namespace"`
	Pod            string `json:"pod"`
	ServiceAccount string `json:"serviceAccount,omitempty"`
	// Tokens are what the CSIDriver wants. TokensInSecrets: they are secrets of the call, not attributes.
	Tokens          []storagev1.TokenRequest `json:"tokens,omitempty"`
	TokensInSecrets bool                     `json:"tokensInSecrets,omitempty"`
	// Group is the pod's fsGroup if it is set here, by the policy.
	Group        *int64                    `json:"group,omitempty"`
	ChangePolicy v1.PodFSGroupChangePolicy `json:"changePolicy,omitempty"`
	ExpandSecret *secretRef                `json:"expandSecret,omitempty"`
}

// secretRef names a secret.
type secretRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// expandArgs are the arguments of an expansion.
type expandArgs struct {
	Bytes int64 `json:"bytes"`
}

// ExpandArgs returns the arguments of an expansion to a size, for Storage.Expand.
func ExpandArgs(bytes int64) string { return encode(expandArgs{bytes}) }

// encode returns the arguments as JSON.
func encode(args any) string {
	data, err := json.Marshal(args)
	if err != nil {
		panic(err) // They have strings and numbers only.
	}
	return string(data)
}

// decode reads recorded arguments.
func decode(text string, args any) error {
	if err := json.Unmarshal([]byte(text), args); err != nil {
		return notSent(fmt.Errorf("read the recorded arguments of the volume: %w", err))
	}
	return nil
}

// notSent is the error of a call that wasn't made.
func notSent(err error) error { return &storage.Error{Outcome: storage.NotSent, Err: err} }
