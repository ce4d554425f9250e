package observed

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// State is a container's state in the runtime.
type State int

// The states of a container.
const (
	// Unknown is a container whose state the runtime doesn't know.
	Unknown State = iota
	Created
	Running
	Exited
)

// Pod is the state of one pod in the runtime. It never changes once it is made.
type Pod struct {
	UID             types.UID
	Namespace, Name string
	// Source is the source that the pod came from, by the sandbox's annotation. Empty if that isn't known.
	Source string
	// Sandboxes are sorted by attempt, the latest first.
	Sandboxes []Sandbox
	// Containers are of all sandboxes, dead ones too, sorted by attempt, the latest first: attempts rise as long as the
	// pod exists, while the node's clock may be set back.
	Containers []Container
	// ReadAt is when the state was read.
	ReadAt time.Time
}

// Sandbox is one pod sandbox.
type Sandbox struct {
	ID      string
	Attempt uint32
	// Ready is false once the sandbox has stopped.
	Ready   bool
	Created time.Time
	// HostNetwork is set if it shares the node's network.
	HostNetwork bool
	// IPs are the pod's IPs, the primary one first. Nil with host network, and in the pods of List.
	IPs []string
	// PID is that of the sandbox's process, in the runtime's PID namespace. 0 if it isn't known, as in the pods of
	// List.
	PID int
}

// Container is one container, of any attempt. The pods of List have only ID, Name, SandboxID, Attempt, State, Hash,
// Image, ImageRef, Created and GracePeriod.
type Container struct {
	ID, Name, SandboxID string
	// Attempt is the restart count: how many containers of this name the pod had before.
	Attempt uint32
	State   State
	// Hash is that of the container's spec at its creation (criconfig.ContainerHash).
	Hash string
	// Image is the image as the pod names it; ImageRef is the resolved reference.
	Image, ImageRef string
	// Created, Started and Finished are zero until they occur.
	Created, Started, Finished time.Time
	// PID is that of its first process, in the runtime's PID namespace. 0 if it isn't known. It may be set for an ended
	// container.
	PID      int
	ExitCode int32
	// Reason and Message are the runtime's, for an exited container.
	Reason, Message string
	// GracePeriod is the pod's termination grace period at the container's creation, in seconds; nil if it isn't
	// recorded.
	GracePeriod *int64
	// Replaced is set if this agent stopped it so that a successor can start: its exit code then doesn't count.
	Replaced bool
	// PreStop is the hook that was recorded with the container, and Ports are the ports that the hook may name. Nil if
	// it has none.
	PreStop *v1.LifecycleHandler
	Ports   []v1.ContainerPort
	// Resources are its actual resources. Nil if the runtime doesn't report them.
	Resources *Resources
	// MemoryRequest is its request at its creation, in bytes; nil if it isn't recorded, because a change doesn't
	// restart it.
	MemoryRequest *int64
	// User is the user of its first process, and StopSignal its stop signal. Nil if the runtime doesn't report it, as
	// containerd before 2.0.
	User       *v1.ContainerUser
	StopSignal *v1.Signal
}

// Resources are a container's actual resources, in the units of the CRI. Zero isn't reported; a negative limit is none.
type Resources struct {
	CPUShares, CPUQuota, CPUPeriod, MemoryLimit int64
	// Unified are files of cgroup v2.
	Unified map[string]string
}

// Latest returns the newest container of that name, or nil.
func (p *Pod) Latest(name string) *Container {
	for i := range p.Containers {
		if p.Containers[i].Name == name {
			return &p.Containers[i]
		}
	}
	return nil
}

// ReadySandbox returns the newest sandbox if it is ready, or nil.
func (p *Pod) ReadySandbox() *Sandbox {
	if len(p.Sandboxes) > 0 && p.Sandboxes[0].Ready {
		return &p.Sandboxes[0]
	}
	return nil
}

// Begun returns when the first of its sandboxes that are left was created; now if there is none, or it is in the future.
func (p *Pod) Begun(now time.Time) time.Time {
	begun := now
	for _, s := range p.Sandboxes {
		if s.Created.Before(begun) {
			begun = s.Created
		}
	}
	return begun
}

// Active reports whether a container or sandbox of the pod may still be running.
func (p *Pod) Active() bool {
	for _, s := range p.Sandboxes {
		if s.Ready {
			return true
		}
	}
	for _, c := range p.Containers {
		if c.State == Running || c.State == Unknown {
			return true
		}
	}
	return false
}

// Holds reports whether a container is left in the sandbox.
func (p *Pod) Holds(sandbox string) bool {
	for _, c := range p.Containers {
		if c.SandboxID == sandbox {
			return true
		}
	}
	return false
}
