package volume

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/downward"
	"github.com/podstream/podstream/internal/execsvc/setup/volume/payload"
)

// Plugin implements one kind of volume. Its methods are called concurrently, also for different volumes of one pod, and by
// one goroutine at a time for one volume. It should keep its state of a volume in the volume's directory, which is all that is left
// after a restart.
type Plugin interface {
	// Name is the kubelet's name of the plugin, "kubernetes.io/csi": the directory of its volumes has this name, with
	// "~" for "/".
	Name() string
	// Takes reports whether the volume is of this kind.
	Takes(spec *v1.Volume) bool
	// SetUp creates or updates the volume. It is called at each sync of the pod, so it must be cheap without a
	// change, and continue from the state that an interrupted call left. It creates v.Dir itself, if the kind needs
	// it, and changes the volume to the pod's fsGroup, if the kind supports it: package ownership. The user sees its
	// error after the volume's name; the pod waits, unless it is an OutdatedError.
	SetUp(ctx context.Context, v Volume) error
	// Source returns what a container sees of the volume after SetUp. It does not access the disk.
	Source(v Volume) Source
	// TearDown reverts what the Manager can't: afterwards the Manager unmounts everything below v.Dir, and removes
	// the directory. Only UID, Name and Dir of v are set. It is called for each volume that has a directory, until it
	// succeeds.
	TearDown(ctx context.Context, v Volume) error
}

// Volume is one volume of a pod.
type Volume struct {
	// UID is the pod's.
	UID types.UID
	// Name is the volume's name: the one in the pod's spec, or that of a Location. It is a valid directory name without
	// a leading dot.
	Name string
	// Dir is the volume's own directory: <pods>/<uid>/volumes/<plugin>/<name>. Of a device it is the path of the link to it:
	// <pods>/<uid>/volumeDevices/<plugin>/<name>.
	Dir string
	// Device is set if the volume is a block device, by its Location.
	Device bool

	Pod  *v1.Pod
	Spec *v1.Volume
	// Objects are the ConfigMaps and Secrets that the pod may read.
	Objects Objects
	Facts   downward.Facts
}

// fsGroup returns the pod's fsGroup; nil if it has none.
func (v *Volume) fsGroup() *int64 {
	if sc := v.Pod.Spec.SecurityContext; sc != nil {
		return sc.FSGroup
	}
	return nil
}

// Source describes what a container sees of a volume.
type Source struct {
	// Path is the directory or file of the node.
	Path string
	// Device is set if Path leads to a block device: containers can have it as a device, and can't mount it.
	Device bool
	// Image is the reference of an image that the runtime mounts. Path is empty then.
	Image string
	// ReadOnly is set if no container may write to the volume, whatever its volumeMount says.
	ReadOnly bool
	// Foreign is a name of the volume for people, if its file system may hang: paths in it are only accessed by package
	// foreign. Empty: it is the node's own, or a hostPath.
	Foreign string
	// Own is set if the runtime labels the volume's files for the pod, on a node with SELinux.
	Own bool
}

// OutdatedError is the error of a SetUp that left the volume unchanged. The pod continues with it.
type OutdatedError struct{ Err error }

func (o *OutdatedError) Error() string { return o.Err.Error() }

// Unwrap returns the cause.
func (o *OutdatedError) Unwrap() error { return o.Err }

// Objects are a pod's ConfigMaps and Secrets: an objects.Reader.
type Objects = payload.Objects

// noObjects is for requests without Objects.
type noObjects struct{}

var errNoObjects = errors.New("ConfigMaps and Secrets are not available")

func (noObjects) ConfigMap(string) (*v1.ConfigMap, error) { return nil, errNoObjects }
func (noObjects) Secret(string) (*v1.Secret, error)       { return nil, errNoObjects }

// plain is embedded in plugins that leave only files and mounts below their volumes' directories.
type plain struct{}

// TearDown is part of Plugin.
func (plain) TearDown(context.Context, Volume) error { return nil }
