package volume

import (
	"context"
	"errors"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/downward"
	"github.com/podstream/podstream/internal/execsvc/volume/payload"
)

// Plugin is one kind of volume. Its methods are called for many pods at the same time, but for one pod by one goroutine. It should
// keep what it has to remember of a volume in the volume's directory, which is all that is left of it after a restart.
type Plugin interface {
	// Name is the kubelet's name of the kind, "kubernetes.io/csi": that of the directory in which the directories of these volumes
	// are, with a "~" for the "/".
	Name() string
	// Takes tells whether the volume is of this kind.
	Takes(spec *v1.Volume) bool
	// SetUp makes the volume, or brings it up to date. It is called at each sync of the pod, so it has to be cheap where there is
	// nothing to do, and to go on from whatever an earlier call, which may have been killed, has left. It makes v.Dir itself, if
	// the kind needs it. Giving the volume to the pod's fsGroup, where the kind does that, is part of it: package ownership. An
	// error is shown to the user, after the volume's name; the pod waits, unless it is an OutdatedError.
	SetUp(ctx context.Context, v Volume) error
	// Source is what a container sees of the volume once SetUp was successful. It asks nothing of the disk.
	Source(v Volume) Source
	// TearDown undoes what the Manager can't: it unmounts all that is below v.Dir after this, and removes the directory with its
	// content then. Of v only UID, Name and Dir are set. It is called for each volume that has a directory, until it succeeds.
	TearDown(ctx context.Context, v Volume) error
}

// Volume is one volume of a pod.
type Volume struct {
	// UID is the pod's.
	UID types.UID
	// Name is the volume's. It can be that of a directory, and doesn't begin with a dot.
	Name string
	// Dir is the volume's own directory: <pods>/<uid>/volumes/<plugin>/<name>.
	Dir string

	Pod  *v1.Pod
	Spec *v1.Volume
	// Objects are the ConfigMaps and Secrets that the pod may read.
	Objects Objects
	Facts   downward.Facts
}

// fsGroup is the group to which the pod wants its volumes to belong; nil for none.
func (v *Volume) fsGroup() *int64 {
	if sc := v.Pod.Spec.SecurityContext; sc != nil {
		return sc.FSGroup
	}
	return nil
}

// Source is what a container sees of a volume.
type Source struct {
	// Path is the directory or file of the node.
	Path string
	// Image is what the runtime calls an image that it mounts itself. Path is empty then.
	Image string
	// ReadOnly is set if nobody may write to the volume, whatever a container asks for.
	ReadOnly bool
	// Own is set if the volume is the pod's alone, so that SELinux may give it the pod's label.
	Own bool
}

// OutdatedError is an error of a SetUp that has left the volume as it was. What runs in the pod goes on with it.
type OutdatedError struct{ Err error }

func (o *OutdatedError) Error() string { return o.Err.Error() }

// Unwrap is what has failed.
func (o *OutdatedError) Unwrap() error { return o.Err }

// Objects are a pod's ConfigMaps and Secrets: an objects.Reader.
type Objects = payload.Objects

// noObjects is in place of those of a pod that should need none.
type noObjects struct{}

var errNoObjects = errors.New("ConfigMaps and Secrets can't be had")

func (noObjects) ConfigMap(string) (*v1.ConfigMap, error) { return nil, errNoObjects }
func (noObjects) Secret(string) (*v1.Secret, error)       { return nil, errNoObjects }

// plain is part of the plugins that leave nothing but files and mounts below their volumes' directories.
type plain struct{}

// TearDown is part of Plugin.
func (plain) TearDown(context.Context, Volume) error { return nil }

// dirName is the plugin's name as that of a directory.
func dirName(p Plugin) string { return strings.ReplaceAll(p.Name(), "/", "~") }
