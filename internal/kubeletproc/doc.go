// Package kubeletproc finds kubelets that run on this machine and conflict with podexecd: they use its container runtime or
// its ports, or are the process of kubelet.service.
//
// podexecd doesn't start beside one: both would create and remove the same containers. podctl doctor reports one. The
// package runs no goroutines, and keeps nothing. Podstream's own launcher has the name kubelet too, and counts as none.
//
// A process of a pod can have any name and arguments. By its arguments it counts only if the socket that they name is the
// runtime's own, as the process sees it, and a pod that has that socket mounted is root on the node anyway. By its port or
// cgroup it counts only in podexecd's own PID namespace, which a pod shares only with hostPID.
package kubeletproc
