// Package gc removes what nobody needs any more and no pod's worker would remove: ended containers beyond the node's bound, and links in
// /var/log/containers to logs that are gone.
//
// Housekeeping calls Collect, which does its work once in a while, and RemoveAll is for a disk that runs full. What to remove is decided by
// pure functions (surplus, picture); the rest is calls and files. It runs no goroutines. What it never does: remove a container that may run,
// or the last one of its name of a pod that is wanted, as that tells what became of it and would be run again otherwise; remove logs, which go
// with their pods and may be those of another agent on the node; or touch a link of which that agent may still have need.
//
// Whom it takes first, and when, is as in the kubelet (pkg/kubelet/kuberuntime/kuberuntime_gc.go). What a worker does for its own pod, like
// keeping only the last few containers of each name, isn't done here.
package gc
