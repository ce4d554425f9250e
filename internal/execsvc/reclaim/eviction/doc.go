// Package eviction keeps the node from running out of memory, disk, inodes and process IDs: the kubelet's eviction
// manager (pkg/kubelet/eviction).
//
// Every ten seconds a Manager observes the signals and compares them with the thresholds of evictionHard and
// evictionSoft. If one is met, the node has a condition (MemoryPressure, DiskPressure, PIDPressure) until some
// minutes after its end, and Admit refuses pods that would make it worse. On a disk the Manager first removes exited
// containers and unused images. If that does not suffice, it evicts one pod after the other, first those that exceed
// their requests the most. Package localstorage evicts pods that exceed limits of their own. Unknown values cause no
// eviction: a signal that can't be read meets no threshold, and a pod whose usage the runtime does not report stays.
//
// Run is the Manager's only goroutine beside those of package nodefs; Pressure and Admit may be called concurrently, and
// don't wait for it. Parsing, the values of thresholds, the ranking of pods and the messages are pure. The package never
// ends a pod itself: the agent does.
//
// Free memory and the inactive file cache count as available, as on the kubelet's nodes with cgroup v2. With a Notifier
// the Manager also observes when the kernel reports that memory crossed a threshold, at most once a second.
//
// Volumes and logs are on nodefs, images on imagefs, writable layers on containerfs. Two or all of them may be one file
// system; layout has the consequences. The signals of containerfs are observed only if it is a file system of its own.
//
// One that hangs, or is gone, holds up no evictions for the others. The Manager waits some seconds for its size and two
// minutes for a removal, through package nodefs: goroutines that hang end with their system call.
package eviction
