package admit

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Node is what a pod is held against. Of its zero value nothing is known: there is room for any pod, and no feature.
type Node struct {
	// Name is the node's. Empty: no pod is refused for the nodeName that it has.
	Name string
	// Labels are what selectors look for. Nil: no pod is refused for them.
	Labels map[string]string
	// Taints keep away the pods that don't tolerate them; only those with the effect NoExecute count here.
	Taints []v1.Taint
	// Allocatable is what all pods together may ask for, their number ("pods") too. Cpu, memory, ephemeral storage and pods that it
	// doesn't name have no bound, huge pages that it doesn't name aren't there, and other resources that it doesn't name are ignored.
	Allocatable v1.ResourceList
	// AppArmor tells whether the kernel enforces AppArmor profiles.
	AppArmor bool
	// UnsafeSysctls are patterns of sysctls that pods may set besides the safe ones: names, or prefixes that end in "*". One that isn't
	// a NamespacedSysctl allows nothing.
	UnsafeSysctls []string
	Runtime       Runtime
	// Handler is what the runtime calls a pod's RuntimeClass, by the word of an API server. As in the kubelet a pod isn't refused if that is
	// an error, or if the runtime has no such handler: it waits. Nil: a class is what the runtime calls so.
	Handler func(*v1.Pod) (string, error)
}

// Runtime is what the container runtime can do, as it last told.
type Runtime struct {
	// SupplementalGroupsPolicy is the CRI's feature of that name: it keeps an image's own groups out of a pod that says Strict.
	SupplementalGroupsPolicy bool
	// UserNamespacesHostNetwork is that a pod may have users of its own in the node's network.
	UserNamespacesHostNetwork bool
	// ImageVolumes is that it mounts images. The CRI doesn't tell.
	ImageVolumes bool
	// Handlers are by the runtime's own names; "" is the default. Empty: the runtime doesn't tell, as before
	// CRI 0.30: pods of any class are left to it, and none of them has a Handler's features.
	Handlers map[string]Handler
}

// Handler is what one of the runtime's handlers can do.
type Handler struct{ UserNamespaces, RecursiveReadOnlyMounts bool }

// handlerFor is the handler that makes a pod's sandbox, and whether the pod can't run as the runtime tells of others only.
func (n *Node) handlerFor(pod *v1.Pod) (name string, h Handler, missing bool) {
	name = ptr.Deref(pod.Spec.RuntimeClassName, "")
	var err error
	if n.Handler != nil {
		name, err = n.Handler(pod)
	}
	h, ok := n.Runtime.Handlers[name]
	missing = err != nil || !ok && name != "" && len(n.Runtime.Handlers) > 0
	if missing && n.Handler != nil {
		return name, Handler{UserNamespaces: true, RecursiveReadOnlyMounts: true}, false
	}
	return name, h, missing
}
