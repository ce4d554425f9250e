package criconfig

import runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

// Device is a device of the node that a container has.
type Device struct {
	// HostPath leads to the device, also by a symbolic link. The runtime makes a device with the same number at
	// ContainerPath.
	HostPath, ContainerPath string
	// Permissions are those of the device cgroup: any of r (read), w (write) and m (mknod).
	Permissions string
}

// devices converts a container's devices.
func devices(list []Device) []*runtimeapi.Device {
	var out []*runtimeapi.Device
	for _, d := range list {
		out = append(out, &runtimeapi.Device{HostPath: d.HostPath, ContainerPath: d.ContainerPath, Permissions: d.Permissions})
	}
	return out
}
