// Package admit tells whether a pod can run on this node, before anything is done for it.
//
// A pod is refused if it asks for something whose silent loss would change what it means or how safe it is: what this version, or
// the node's container runtime, can't do. Then it is held against the node and the pods that are there, as the kubelet's predicates
// do: selectors and taints, free ports, free resources; a critical pod may push out others. What merely isn't acted upon is named, so
// that it can be logged once. Reasons and messages are the kubelet's, where it has them.
//
// Compare is the order in which pods that want the same room have their turn.
//
// Check is a pure function of values; the pod's worker calls it. The package runs no goroutines and reads nothing of the machine: the
// Node is what package nodeinfo and the runtime tell.
package admit
