// Package userns allocates to each pod with hostUsers: false a range of the node's user and group IDs that no other
// pod has.
//
// Package podsetup requests a pod's range whenever it creates a sandbox or container, and frees it after the pod's
// directory is gone. The range is recorded in that directory, in a file of the kubelet's name and format
// (pkg/kubelet/userns): after a restart the pod, which may be running, keeps it. If a record can't be read, or
// overlaps another pod's, free IDs are unknown: no other pod gets a range until the pod and its record are gone.
//
// Ranges come from Config's, or from the range of the user kubelet in /etc/subuid and /etc/subgid (Subordinate). The
// package does not change a volume's files: the runtime mounts them with the pod's IDs. There are no goroutines.
package userns
