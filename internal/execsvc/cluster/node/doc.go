// Package node keeps this node's Node object at the API server: it registers it, posts its status, and renews its lease, as the kubelet does
// (pkg/kubelet/kubelet_node_status.go).
//
// Node.Run has three goroutines. The first registers the Node, and then posts its status: shortly after Wake, and
// every 10 s, but only if the status has changed or the last post is five minutes old. The second watches the
// object, for Node.Node and for the pod CIDRs that the cluster assigns. The third renews the lease. If the Node is
// deleted, it is registered again within one status interval; the kubelet registers it again only after a restart.
//
// Nothing else waits for this package. While the API server can't be reached it retries, logs the error once, and
// then catches up. Addresses finds the node's own addresses, with or without a cluster. RuntimeStatus asks the
// container runtime for its status; RuntimeWatch.Run, one goroutine, does so periodically. Package nodestatus
// computes the status.
package node
