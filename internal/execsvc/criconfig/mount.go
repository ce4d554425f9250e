package criconfig

import (
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Mount is a path of the node, or an image, that a container sees.
type Mount struct {
	// HostPath is empty for an image.
	HostPath, ContainerPath string
	ReadOnly                bool
	// RecursiveReadOnly makes read-only also what is mounted beneath. It needs ReadOnly, no propagation, and a runtime that can do it.
	RecursiveReadOnly bool
	// Propagation empty means None.
	Propagation v1.MountPropagationMode
	// Image is what the runtime mounts by itself. Nil: the HostPath.
	Image *ImageMount
	// SELinuxRelabel gives what is mounted the container's label.
	SELinuxRelabel bool
}

// ImageMount is an image as a volume.
type ImageMount struct {
	// Ref is what the runtime calls the image.
	Ref string
	// SubPath is the part of it that is mounted; empty: all.
	SubPath string
}

// mounts are those of a container. In a user namespace of its own it sees the files' owners by the pod's ids.
func mounts(list []Mount, users *runtimeapi.UserNamespace) []*runtimeapi.Mount {
	var out []*runtimeapi.Mount
	for _, m := range list {
		mount := &runtimeapi.Mount{
			HostPath: m.HostPath, ContainerPath: m.ContainerPath, Readonly: m.ReadOnly, RecursiveReadOnly: m.RecursiveReadOnly,
			Propagation: propagation(m.Propagation), SelinuxRelabel: m.SELinuxRelabel,
			UidMappings: users.GetUids(), GidMappings: users.GetGids(),
		}
		if m.Image != nil {
			mount.Image, mount.ImageSubPath = &runtimeapi.ImageSpec{Image: m.Image.Ref}, m.Image.SubPath
		}
		out = append(out, mount)
	}
	return out
}

func propagation(mode v1.MountPropagationMode) runtimeapi.MountPropagation {
	switch mode {
	case v1.MountPropagationHostToContainer:
		return runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER
	case v1.MountPropagationBidirectional:
		return runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL
	default:
		return runtimeapi.MountPropagation_PROPAGATION_PRIVATE
	}
}
