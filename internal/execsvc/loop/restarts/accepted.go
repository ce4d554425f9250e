package restarts

import "errors"

// ErrRefused is wrapped by the reason why a pod's containers can't be restarted now.
var ErrRefused = errors.New("its containers can't be restarted")

// Accepted is a request that is stored.
type Accepted struct {
	// Containers are restarted: init containers and sidecars first, in the order of the pod's spec.
	Containers []Container
	// Joined is set if the restart of all of them was pending already.
	Joined bool
	// GraceSeconds is the grace period of each container.
	GraceSeconds int64
}

// Container is a container that is restarted.
type Container struct {
	// Name is its name, and ID the ID of the container that is replaced, as in the pod's status.
	Name, ID string
	// RestartCount is that of the present container.
	RestartCount int32
}
