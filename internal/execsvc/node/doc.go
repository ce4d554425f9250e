// Package node keeps this node's Node object at the API server: it registers it, posts its status, and renews its lease, as the kubelet does
// (pkg/kubelet/kubelet_node_status.go).
//
// A Node's Run has three goroutines. One registers, and from then on posts the status: soon after Wake, and every 10 s, but only if something has
// changed or the last post is five minutes old. One watches the object, for Node and for the pod CIDRs that the cluster gives. One renews the
// lease, by which the cluster knows that the node lives. A Node that is deleted meanwhile is registered again within one status interval; the
// kubelet does so only when it is started anew.
//
// Nothing else waits for this package. While the API server can't be reached it tries on, tells so once, and catches up. Addresses finds the
// node's own addresses, with or without a cluster. RuntimeWatch asks the container runtime how it is; its Run is one goroutine. What a status
// says is package nodestatus's.
package node
