// Package localstorage enforces the limits of local storage: the sizeLimit of an emptyDir, and the ephemeral-storage
// limits of containers, which bound their logs and writable layers and, added up, the whole pod.
//
// A Manager checks the pods with such a limit every 10 s, and evicts those that exceed one; without such pods it
// calls neither the meter nor the runtime. Run is its only goroutine, and Measure may be called concurrently. The
// meaning and order of the limits and the messages are the kubelet's (localStorageEviction in pkg/kubelet/eviction),
// with two exceptions: the limit of an init container or sidecar counts like that of any other container, and a
// writable layer always counts, even if the runtime keeps layers on a file system of their own.
//
// An emptyDir in memory isn't checked, as its file system is no larger than its limit. The pod's /etc/hosts counts
// for the pod, and a termination message for its container. Package diskusage counts the files; a pod with more files
// than it can count exceeds each of its limits. A round checks the pods whose files are counted within a second, and
// the others in a later round. The package never ends a pod itself, and never changes a file.
package localstorage
