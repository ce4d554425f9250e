// Package resize decides on changes of the CPU and memory of running pods (KEP-1287): whether the node has the desired
// resources free, and how each container changes.
//
// The spec has a pod's desired resources. Its allocation has those that were last found free: the pod runs with them,
// starts containers with them and counts with them for other pods, until Decide finds more free. Changes then compares
// the resources of running containers with the pod's allocation.
//
// The package is pure. Admission calls Decide when the pod is admitted again; waiting resizes are tried in the order of
// Compare. Package runtime calls Changes and carries them out. Allocations are kept elsewhere: by admission while
// podexecd runs, and by package store for the next start. For a pod without a stored Allocation, Restored reads it from
// the pod's last status. The rules and words are the kubelet's (pkg/kubelet/allocation, pkg/kubelet/kuberuntime),
// except that containers are compared by what the runtime reports, and not by a record of what was requested: a change
// of the memory request alone, which changes nothing for a container, restarts none.
//
// Only an API server resizes pods: it numbers their specs. A pod without a generation is static; its UID changes with
// its spec.
package resize
