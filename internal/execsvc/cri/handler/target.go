package handler

import v1 "k8s.io/api/core/v1"

// Target is the container that a probe or a hook is for.
type Target struct {
	Pod *v1.Pod
	// Container is its name, ContainerID its ID in the runtime.
	Container, ContainerID string
	// Ports are the ports that a handler may name.
	Ports []v1.ContainerPort
	// PodIP is the destination of requests without a host. Empty while it isn't known: such requests fail.
	PodIP string
}
