package admit

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/decide/declared"
)

// Node describes the node that a pod is checked for. The zero value has capacity for any pod, and no feature.
type Node struct {
	// Name is the node's name. Empty: no pod is rejected for its nodeName.
	Name string
	// Labels are the labels that selectors match. Nil: no pod is rejected for its selector.
	Labels map[string]string
	// Taints repel the pods that don't tolerate them; only those with the effect NoExecute count here.
	Taints []v1.Taint
	// Allocatable is the sum that all pods may request, including their number ("pods"). If it doesn't name cpu,
	// memory, ephemeral storage or pods, these are unbounded; the node has no huge pages that it doesn't name; other
	// resources that it doesn't name are ignored.
	Allocatable v1.ResourceList
	// AppArmor reports whether the kernel enforces AppArmor profiles.
	AppArmor bool
	// UnsafeSysctls are patterns of sysctls that pods may set besides the safe ones: names, or prefixes that end in
	// "*". A pattern of sysctls without a value for each namespace allows nothing.
	UnsafeSysctls []string
	Runtime       Runtime
	// Declared are the features in the Node's status. A pod that needs others is rejected.
	Declared declared.Features
	// Handler returns the name of the runtime's handler for a pod's RuntimeClass, as the API server has it. As in the
	// kubelet, a pod isn't rejected if that is an error, or if the runtime has no such handler: it waits. Nil: a class
	// is the handler of the same name.
	Handler func(*v1.Pod) (string, error)
}

// Runtime holds the features of the container runtime, as it last reported them.
type Runtime struct {
	// Silent is set while the runtime doesn't answer. A newer runtime may be about to replace it, so no pod is
	// rejected for a feature that is missing: it waits.
	Silent bool
	// SupplementalGroupsPolicy is the CRI's feature of that name: with the policy Strict, a pod doesn't get the
	// image's own groups.
	SupplementalGroupsPolicy bool
	// ImageVolumes is set if the runtime mounts images. The CRI doesn't report it.
	ImageVolumes bool
	// Handlers are by the runtime's own names; "" is the default. Empty: the runtime doesn't report them, as before
	// CRI 0.30. Pods of any class are then admitted, and have none of a Handler's features.
	Handlers map[string]Handler
}

// Handler holds the features of one of the runtime's handlers.
type Handler struct{ UserNamespaces, RecursiveReadOnlyMounts bool }

// handlerFor returns the handler of a pod's sandbox. missing reports whether the runtime has no such handler.
func (n *Node) handlerFor(pod *v1.Pod) (name string, h Handler, missing bool) {
	name, err := n.handlerName(pod)
	h, ok := n.Runtime.Handlers[name]
	missing = err != nil || !ok && name != "" && len(n.Runtime.Handlers) > 0
	if missing && n.Handler != nil {
		return name, Handler{UserNamespaces: true, RecursiveReadOnlyMounts: true}, false
	}
	return name, h, missing
}

// handlerName returns the name of the runtime's handler for the pod's RuntimeClass.
func (n *Node) handlerName(pod *v1.Pod) (string, error) {
	if n.Handler != nil {
		return n.Handler(pod)
	}
	return ptr.Deref(pod.Spec.RuntimeClassName, ""), nil
}

// RecursiveReadOnly reports whether the handler of the pod's sandbox supports recursive read-only mounts.
func (n *Node) RecursiveReadOnly(pod *v1.Pod) bool {
	name, err := n.handlerName(pod)
	return err == nil && n.Runtime.Handlers[name].RecursiveReadOnlyMounts
}
