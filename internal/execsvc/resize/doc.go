// Package resize decides on changes of the cpu and memory of pods that run (KEP-1287): whether the node has what is asked for now, and what
// that means for each container.
//
// A pod asks for what its spec says, and has been allocated what was last found free for it: it runs with that, starts containers with
// that, and counts with that for others, until Decide finds room for more. Changes then compares what running containers are held to with
// what their pod was allocated.
//
// All of it is pure. Decide is called as the pod is admitted again, those that wait for room in the order of Compare; Changes by package
// runtime, which carries them out. What was allocated isn't kept here: while podexecd runs its admission has it, and package store keeps it
// as an Allocation for the next life; of a pod without one, Told reads it from the pod's last status. The rules and words are the
// kubelet's (pkg/kubelet/allocation, pkg/kubelet/kuberuntime), but that containers are compared by what the runtime says of them, and not
// by notes of what it was told: a change of the memory request alone, by which nothing changes for a container, restarts none.
//
// Only an API server resizes pods: it numbers their specs. A pod without a generation is static; its spec changes with its UID.
package resize
