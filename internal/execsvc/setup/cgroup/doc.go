// Package cgroup creates and removes the cgroups of pods, and limits those of the node's daemons: the kubelet's container
// manager (pkg/kubelet/cm), with its names and values.
//
//	<root>/kubepods                       all pods, limited to the node's allocatable
//	<root>/kubepods/pod<uid>              a guaranteed pod
//	<root>/kubepods/burstable/pod<uid>    a burstable pod; the tier's cpu share is the sum of its pods' requests
//	<root>/kubepods/besteffort/pod<uid>   a best-effort pod; the tier has the minimum share
//
// The systemd driver uses slices: kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice. Both
// drivers work on cgroup v1 and v2. The runtime creates the containers' cgroups below the pod's, which Parent names.
//
// A pod worker calls Ensure before it starts or changes containers, SetPod after that, and Remove once the pod has
// ended. A resize in place needs both: the pod's limits must be raised before its containers', and lowered after
// them. RemoveContainer is called before a sandbox is removed, or a container whose start was cut short. The agent calls
// Balance when the set of pods changes. Calls for one pod are sequential, except RemoveContainer; those for different
// pods are independent. The package runs no goroutines.
//
// A Manager caches the last resources of each pod, so that a call without a change writes nothing; after a restart it
// reads the kernel's values. The cache has a lock, and so have the tiers; neither is held together with the other, or
// while a pod's cgroup is changed.
//
// Reserved is a cgroup of the node's own daemons: Enforce limits it once, at start, and changes nothing else of it.
//
// Several agents, a kubelet among them, may share one root. Only Remove and RemoveContainer remove a cgroup, that of
// their pod or below it; tiers are never removed. Each of two agents sets the burstable tier to its own pods' requests
// when these change, and the last write counts: the tier's share is then too small until the other agent's pods change,
// which matters only while the cpu is short. Agents that share a node permanently should have different roots.
//
// Unlike the kubelet, the package removes a pod's limit when it is dropped from the spec, prevents forks before it
// kills, kills by pidfd, and doesn't block on a process that can't be killed: that is ErrBusy.
package cgroup
