package storage

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
)

// Volume is a volume that a pod's volume refers to, after claims are resolved.
type Volume struct {
	record.Key
	record.Traits
	// Plugin is the name of upstream's plugin, "kubernetes.io/csi", and Name the name of the PersistentVolume, or of
	// the pod's volume if there is none. They name the volume's directory.
	Plugin, Name string
	// ReadOnly is set if no container may write to the volume.
	ReadOnly bool
	// Device is set if the volume is a block device, not a file system.
	Device bool
	// Group is the group that the PersistentVolume gives to the pod's processes. Nil: none.
	Group *int64
	// FSGroup is the pod's fsGroup, if pods with the same volume share it: the backend changes the volume for the first one only. Nil: the
	// pod has none, or the volume is changed for each pod.
	FSGroup *int64
	// StageArgs and PublishArgs are the backend's arguments, which are recorded on disk: at most 64 KiB of UTF-8
	// without secrets. A backend that needs a secret puts a reference to it there, and reads it for each call.
	StageArgs, PublishArgs string
	// Exclusive is set if one pod at a time may use the volume. Another one waits until the first is gone.
	Exclusive bool
	// OncePod is set if the volume is Exclusive because its PersistentVolume is ReadWriteOncePod. The error has the kubelet's words then,
	// and, as with the kubelet, the pod takes the volume also while others that it needs aren't free.
	OncePod bool
	// Exact is set if the volume can't be used while it is staged with other StageArgs: the pod waits for its unstage, whatever that answers.
	Exact bool
	// OneContext is set if the volume can't be used with another SELinuxContext at the same time, also if that is empty: a pod
	// with another one waits. If it isn't set, the pod uses the volume as it is mounted.
	OneContext bool
	// AccessMode is the kubelet's short name of the widest access mode, for metrics.
	AccessMode string
}

// Staging are the arguments of a call that stages or unstages a volume.
type Staging struct {
	record.Key
	// Context is what the attachment gave: the publish context of CSI. It must not be changed.
	Context map[string]string
	// Args are the StageArgs of the volume.
	Args string
}

// Publishing are the arguments of a call for a publication.
type Publishing struct {
	Staging
	// Staged is set if the volume is staged.
	Staged bool
	// Again is set if the volume is published already, and containers may use it: the call only gives the driver new
	// tokens. Whatever it answers, the volume must stay as it is.
	Again bool
	// KeepsGroup is set if the volume has an FSGroup, and isn't changed to it. It is the same in each call for a publication, also after a
	// restart: a change that was begun is completed, whichever pods have the volume meanwhile.
	KeepsGroup bool
	// UID is the pod's. Plugin, Name and ReadOnly are the Volume's.
	UID          types.UID
	Plugin, Name string
	ReadOnly     bool
	// Dir is the volume's directory in the pod's directory. The backend creates it, and mounts the volume at
	// MountPoint(Dir). If Device is set, it is the path of a symbolic link, which the backend makes lead to the block device.
	Dir    string
	Device bool
	// Args are the PublishArgs of the volume.
	Args string
}

// MountDir is the name of the directory in a volume's directory where the volume of a CSI driver is mounted.
const MountDir = "mount"

// Backend makes the calls for one kind of volume. A call may be repeated with the same arguments at any time, also after
// a restart of podexecd or of the node, and must then have the same effect. For one volume there is one call at a time;
// calls for different volumes are concurrent. A call should end with its context. OutcomeOf says what an error means.
type Backend interface {
	// MountPoint returns where a volume is published whose directory is dir: that directory, or MountDir in it.
	MountPoint(dir string) string
	// VolumeName returns a name of a volume for people, and for package foreign: volumes of one file system, which hang
	// together, have the same.
	VolumeName(k record.Key) string
	// Stage makes the volume available on the node.
	Stage(ctx context.Context, s Staging) error
	// Publish mounts the volume for a pod, at MountPoint(p.Dir), and changes it to the pod's fsGroup. A device is linked at
	// p.Dir.
	Publish(ctx context.Context, p Publishing) error
	// Unpublish unmounts the volume, and removes everything that Publish made in p.Dir, except for p.Dir and MountDir. The
	// link of a device is removed.
	// It succeeds if the volume isn't published.
	Unpublish(ctx context.Context, p Publishing) error
	// Unstage reverts Stage. It succeeds if the volume isn't staged.
	Unstage(ctx context.Context, s Staging) error
	// Expand makes the volume's file system as large as the volume.
	Expand(ctx context.Context, p Publishing, args string) error
	// Stats returns the usage of a published volume. It may be called during other calls.
	Stats(ctx context.Context, p Publishing) (Stats, error)
}

// Stoppable is implemented by a Backend whose calls of Publish end soon after their context, so that their outcome is known then. The
// context of a call ends when no pod wants the volume any more. Otherwise a call goes on until its limit, so that its answer isn't lost.
type Stoppable interface {
	// StopsPublish reports whether Publish is such a call.
	StopsPublish() bool
}

// Registers is implemented by a Backend whose drivers come and go.
type Registers interface {
	// IsAway reports whether last is the error of a call that wasn't made because the driver wasn't registered, and it still isn't. It must
	// not block.
	IsAway(driver string, last error) bool
}

// Devices is implemented by a Backend whose volumes can be block devices.
type Devices interface {
	// CheckDevice returns an error if the link of a published device doesn't lead to the device that was published. It is
	// called before each start of a container, also during other calls, and must not wait for a driver.
	CheckDevice(p Publishing) error
}

// Relabels is implemented by a Backend whose volumes the container runtime may label for a pod, on a node with SELinux.
type Relabels interface {
	// Relabels reports whether the runtime has to label the files of a published volume. It must not wait for a driver,
	// nor access the volume.
	Relabels(p Publishing) bool
}

// Labelled is implemented by a Backend whose calls may mount a volume with an SELinux context.
type Labelled interface {
	// ContextOf returns the context in the recorded arguments of a stage or a publication; empty: none.
	ContextOf(args string) string
}

// Stats is the usage of a volume, in bytes and inodes. Zero: unknown.
type Stats struct {
	Available, Capacity, Used      int64
	Inodes, InodesFree, InodesUsed int64
	// Abnormal is the driver's description of a volume that needs repair; empty: it is well.
	Abnormal string
}

// Attachments are the node's volumes in the API server. Its methods return early when their context ends.
type Attachments interface {
	// MarkInUse returns when the API server has the name in the node's volumesInUse.
	MarkInUse(ctx context.Context, uniqueName string) error
	// DropInUse returns when the API server doesn't have it there any more.
	DropInUse(ctx context.Context, uniqueName string) error
	// WaitAttached returns when the volume is attached to the node, with its publish context.
	WaitAttached(ctx context.Context, v Volume) (publishContext map[string]string, err error)
}

// Sizes makes volumes as large as their claims say, by Storage.Expand.
type Sizes interface {
	// Mounted is called after a volume has been published for a pod, before a container may use it. An error keeps the
	// pod waiting.
	Mounted(ctx context.Context, pod *v1.Pod, spec *v1.Volume) error
	// Synced is called at each sync of a pod that uses the volume. It must not block.
	Synced(pod *v1.Pod, spec *v1.Volume)
}

// Claims resolves what a pod's volume refers to.
type Claims interface {
	// Resolve returns the volume of a claim, of a generic ephemeral volume, or of an inline volume. The error of a
	// claim that isn't bound says so. Resolve may read from the API server.
	Resolve(ctx context.Context, pod *v1.Pod, spec *v1.Volume) (Volume, error)
}
