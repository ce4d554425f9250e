// Package userns gives each pod with hostUsers: false a range of the node's user and group ids that no other pod has.
//
// Package world asks for a pod's range whenever it makes a sandbox or container of it, and frees it once the pod's directory is gone. What a
// pod has stands in that directory, in a file of the kubelet's name and form (pkg/kubelet/userns): after a restart the pod, which may be
// running, still has it. A file that can't be read, or that claims what another pod has, makes it unknown which ids are free; then no further
// pod gets any until the file is gone with its pod.
//
// Ranges come from Config's, or from the one that /etc/subuid and /etc/subgid give to the user kubelet (Subordinate). Nothing is done here to
// the files of a pod's volumes: the runtime mounts those with the ids of the pod. There are no goroutines.
package userns
