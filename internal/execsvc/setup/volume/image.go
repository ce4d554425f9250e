package volume

import (
	"context"

	v1 "k8s.io/api/core/v1"
)

// image is the plugin for image volumes: the runtime pulls and mounts the image, and removes the mount with the
// container.
type image struct{ plain }

// Name is part of Plugin.
func (image) Name() string { return "kubernetes.io/image" }

// Takes is part of Plugin.
func (image) Takes(spec *v1.Volume) bool { return spec.Image != nil }

// SetUp is part of Plugin.
func (image) SetUp(context.Context, Volume) error { return nil }

// Source is part of Plugin.
func (image) Source(v Volume) Source { return Source{Image: v.Spec.Image.Reference, ReadOnly: true} }
