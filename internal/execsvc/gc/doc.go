// Package gc removes what nobody needs any more and no pod's worker would remove: ended containers beyond the node's bound, the logs of
// pods that are gone, and links to logs that are gone.
//
// Housekeeping calls Collect, which does its work once in a while. What to remove is decided by pure functions (surplus, picture); the rest
// is calls and files. It runs no goroutines. What it never does: remove a container that may run, touch a file that isn't a pod's log or a
// link to one, or follow a link out of the logs' directory.
//
// Whom it takes first, and when, is as in the kubelet (pkg/kubelet/kuberuntime/kuberuntime_gc.go). What a worker does for its own pod, like
// keeping only the last few containers of each name, isn't done here.
package gc
