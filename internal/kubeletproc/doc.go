// Package kubeletproc finds kubelets that run on this machine and use a given container runtime.
//
// podexecd doesn't start beside one: both would create and remove the same containers. podctl doctor reports one. The
// package runs no goroutines, and keeps nothing.
//
// A process of a pod can have any name and arguments. It counts only if the socket that they name is the runtime's own, as the
// process sees it, and a pod that has that socket mounted is root on the node anyway.
package kubeletproc
