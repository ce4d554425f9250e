// Package pressure keeps the node from running out of memory, disk, files and processes: the kubelet's eviction manager (pkg/kubelet/eviction).
//
// A Manager looks every ten seconds at what is left, and holds it against the thresholds of evictionHard and evictionSoft. Below one the node has
// a condition (MemoryPressure, DiskPressure, PIDPressure), for some minutes beyond its end, and takes no more pods that would make it worse: Admit.
// Then what nobody needs is removed from a disk, and if that doesn't help, one pod after the other is evicted, the one first that uses most beyond
// what it has asked for. Package storage evicts pods that exceed limits of their own. On what isn't known nobody is evicted: a signal that can't be
// read says nothing, and a pod stays of which the runtime doesn't tell what it uses.
//
// Run is the Manager's only goroutine; Pressure and Admit may be called beside it, and don't wait for it. Parsing, what a threshold comes to, the
// order of pods and the messages are pure. The package never ends a pod itself: the agent does.
//
// Memory counts as used if the kernel couldn't take it back cheaply: what is free, and the file cache that nobody has used lately, is available,
// as on the kubelet's nodes with cgroup v2. The containerfs signals are those of the file system that containers are on, and not looked at apart.
package pressure
