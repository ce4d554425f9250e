// Package kubeletproc finds kubelets that run on this machine and conflict with podexecd: they use its container runtime,
// its --kubelet-dir or its ports, or are the process of kubelet.service.
//
// podexecd doesn't start beside one: both would create and remove the same containers. podctl doctor reports one. The
// package keeps nothing. Podstream's own launcher has the name kubelet too, and counts as none. A goroutine looks at the
// files that a process names; if their file system's server doesn't answer, it outlasts the search, until the server does.
//
// A process of a pod can have any name and arguments. By its arguments it counts only if the socket or the directory
// that they name is podexecd's own, as the process sees it, and a pod that has it mounted is root on the node anyway. By its port or
// cgroup, or by a socket that it serves in the directory, it counts only in podexecd's own PID namespace, which a pod shares only with hostPID.
// A kubelet that is a part of another program, such as k3s, is found by these sockets.
//
// A search is bounded in time. The processes of containers, which are those in other mount namespaces than podexecd's and
// the first process's, are also bounded in number and in the bytes of their configuration files. What exceeds these bounds
// doesn't count, so that pods can't keep podexecd from starting. The node's own processes always count: one whose files
// can't be read is an error.
package kubeletproc
