package observed

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// State is a container's state as the runtime has it.
type State int

// The states of a container.
const (
	// Unknown is a container that the runtime has lost track of.
	Unknown State = iota
	Created
	Running
	Exited
)

// Pod is what the runtime has of one pod. It never changes once it is made.
type Pod struct {
	UID             types.UID
	Namespace, Name string
	// Source is the source that the pod came from, by the sandbox's annotation. Empty if that isn't known.
	Source string
	// Sandboxes are sorted by attempt, the latest first.
	Sandboxes []Sandbox
	// Containers are of all sandboxes, dead ones too, sorted by attempt, the latest first: attempts rise over a pod's whole life,
	// while the node's clock may be set back.
	Containers []Container
	// ReadAt is when the runtime was asked.
	ReadAt time.Time
}

// Sandbox is one pod sandbox.
type Sandbox struct {
	ID      string
	Attempt uint32
	// Ready is false once the sandbox has stopped.
	Ready   bool
	Created time.Time
	// HostNetwork tells whether it shares the node's network.
	HostNetwork bool
	// IPs are the pod's addresses, the primary one first. Nil with host network, and in the pods of List.
	IPs []string
	// PID is that of the process which keeps the sandbox, as the runtime numbers processes. 0 if that isn't known, as in the pods of List.
	PID int
}

// Container is one container, of whatever attempt. The pods of List have only ID, Name, SandboxID, Attempt, State, Hash, Image,
// ImageRef, Created and GracePeriod.
type Container struct {
	ID, Name, SandboxID string
	// Attempt is the restart count: how many containers of this name came before in this pod.
	Attempt uint32
	State   State
	// Hash is that of the container's spec when it was made (criconfig.ContainerHash).
	Hash string
	// Image is the image as the pod names it; ImageRef is what it stood for.
	Image, ImageRef string
	// Created is when it was made; Started and Finished are zero before they are.
	Created, Started, Finished time.Time
	// PID is that of its first process, as the runtime numbers processes. 0 if that isn't known. It may be set for one that has ended.
	PID      int
	ExitCode int32
	// Reason and Message are the runtime's, for an exited container.
	Reason, Message string
	// GracePeriod is the pod's termination grace period when the container was made, in seconds; nil if it isn't recorded.
	GracePeriod *int64
	// Replaced is set if this agent stopped it so that a successor can start: its exit code doesn't count then.
	Replaced bool
	// PreStop is the hook that was recorded with the container, and Ports are the ports that it may name. Nil if it has none.
	PreStop *v1.LifecycleHandler
	Ports   []v1.ContainerPort
	// Resources are what it is held to. Nil if the runtime doesn't tell.
	Resources *Resources
	// MemoryRequest is what it asked for when it was made, in bytes; nil if that isn't recorded, as it doesn't start anew for another one.
	MemoryRequest *int64
	// User is whom its first process began as, and StopSignal what stops it. Nil if the runtime doesn't tell, as containerd before 2.0 doesn't.
	User       *v1.ContainerUser
	StopSignal *v1.Signal
}

// Resources are what a container is held to, in the units of the CRI. Zero is what isn't told; limits may also be negative: there is none.
type Resources struct {
	CPUShares, CPUQuota, CPUPeriod, MemoryLimit int64
	// Unified are files of cgroup v2.
	Unified map[string]string
}

// Latest is the newest container of that name, or nil.
func (p *Pod) Latest(name string) *Container {
	for i := range p.Containers {
		if p.Containers[i].Name == name {
			return &p.Containers[i]
		}
	}
	return nil
}

// ReadySandbox is the newest sandbox if it is ready, or nil.
func (p *Pod) ReadySandbox() *Sandbox {
	if len(p.Sandboxes) > 0 && p.Sandboxes[0].Ready {
		return &p.Sandboxes[0]
	}
	return nil
}

// Active tells whether anything of the pod may still be running.
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

// Holds tells whether a container is left in the sandbox.
func (p *Pod) Holds(sandbox string) bool {
	for _, c := range p.Containers {
		if c.SandboxID == sandbox {
			return true
		}
	}
	return false
}
