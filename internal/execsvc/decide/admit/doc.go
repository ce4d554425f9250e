// Package admit decides whether a pod can run on this node, before any call for it.
//
// A pod is rejected only for reasons for which the kubelet rejects a pod at admission (reasons.go): selectors and
// taints, ports and resources that are taken, and a few fields. A critical pod may preempt others. A feature that this
// version, or the node's container runtime, doesn't provide is a Lack: the pod is admitted, and the pod, its sandbox
// or one container waits, because a pod without the feature would have another meaning or be less safe. For features that
// nodes declare (package declared), the pod is rejected, because the scheduler finds it another node. Other
// unsupported fields are returned as Ignored, to be logged once. Reasons and messages are the kubelet's, where it has
// them.
//
// Compare is the order in which waiting pods are admitted.
//
// Check is a pure function of values; package admission calls it. The package runs no goroutines and reads nothing of
// the machine: the Node comes from package nodeinfo and the container runtime.
package admit
