// Package containergc removes what no pod worker removes: exited containers beyond the node's limit, and links in
// /var/log/containers to logs that are gone.
//
// Housekeeping calls Collect, which works once per period; RemoveAll is for a disk that fills. Pure functions
// (removable, logState) decide what to remove. The package runs no goroutines. It never removes a container that may
// run, or the last one of its name of a wanted pod, which shows the container's result and would be started again
// otherwise; it never removes logs, which go with their pods and may belong to another agent on the node, or a link
// that such an agent may still use.
//
// The order and times are the kubelet's (pkg/kubelet/kuberuntime/kuberuntime_gc.go). A pod worker itself keeps only
// the last few containers of each name of its pod.
package containergc
