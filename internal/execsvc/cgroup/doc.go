// Package cgroup makes the cgroups that pods are in, and removes them: the kubelet's container manager (pkg/kubelet/cm), with its names
// and values.
//
//	<root>/kubepods                       all pods, held to what the node can give
//	<root>/kubepods/pod<uid>              a guaranteed pod
//	<root>/kubepods/burstable/pod<uid>    a burstable pod; the tier's share of the cpu is what its pods ask for
//	<root>/kubepods/besteffort/pod<uid>   a best-effort pod; the tier has the least share that there is
//
// The systemd driver has the same as slices: kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice. Both drivers
// work on cgroup v1 and v2. The runtime makes those of containers below the pod's, which Parent names.
//
// A pod's worker calls Ensure before it starts or changes containers, SetPod after that, and Remove once the pod has ended. A
// resize in place needs both of the first: a pod has to be as wide as its containers before they grow, and until they have shrunk. The
// agent calls Balance when the set of pods changes. Calls for one pod come one at a time; those for different pods don't meet. The
// package runs no goroutines.
//
// It remembers what it gave each pod, so that a call that changes nothing writes nothing; after a restart it reads what there is.
// What is remembered has a lock, and so have the tiers; they are never held together, nor while a pod's cgroup is worked on.
//
// Several agents, a kubelet among them, may share one root. Nothing is removed but the cgroup of a pod that Remove is called for, and
// the tiers never are. Of two agents each gives the burstable tier what its own pods ask for, when that changes, and the last one
// stands: the tier's share is then too small until the other one's pods change, which only counts while the cpu is short. Agents that
// share a node for long are better given a root each.
//
// Unlike the kubelet it limits a pod anew when its limits are dropped, puts a stop to forks before it kills, kills by pidfd, and
// doesn't block on a process that can't die: that is ErrBusy.
package cgroup
