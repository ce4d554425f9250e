package criconfig

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Mount is a path of the node, or an image, that is mounted into a container.
type Mount struct {
	// HostPath is empty for an image.
	HostPath, ContainerPath string
	ReadOnly                bool
	// RecursiveReadOnly makes the mounts beneath it read-only too. It needs ReadOnly, no propagation, and a runtime
	// that supports it.
	RecursiveReadOnly bool
	// Propagation empty means None.
	Propagation v1.MountPropagationMode
	// Image is the image that the runtime mounts. Nil: it mounts HostPath.
	Image *ImageMount
	// SELinuxRelabel gives the mounted files the container's label.
	SELinuxRelabel bool
}

// ImageMount is an image as a volume.
type ImageMount struct {
	// Ref is the runtime's name of the image, Given the pod's.
	Ref, Given string
	// SubPath is the mounted part of the image; empty: all.
	SubPath string
}

// mounts converts a container's mounts. In a user namespace of its own it sees the files' owners by the pod's IDs.
func mounts(list []Mount, pod *v1.Pod, users *runtimeapi.UserNamespace) []*runtimeapi.Mount {
	var out []*runtimeapi.Mount
	for _, m := range list {
		mount := &runtimeapi.Mount{
			HostPath: m.HostPath, ContainerPath: m.ContainerPath, Readonly: m.ReadOnly, RecursiveReadOnly: m.RecursiveReadOnly,
			Propagation: propagation(m.Propagation), SelinuxRelabel: m.SELinuxRelabel,
			UidMappings: users.GetUids(), GidMappings: users.GetGids(),
		}
		if m.Image != nil {
			mount.Image = &runtimeapi.ImageSpec{Image: m.Image.Ref, UserSpecifiedImage: m.Image.Given, Annotations: maps.Clone(pod.Annotations)}
			mount.ImageSubPath = m.Image.SubPath
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
