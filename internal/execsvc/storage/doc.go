// Package storage holds pods to what they may use of the node's disk: the sizeLimit of an emptyDir, and the limits of ephemeral-storage of
// containers, which bound their logs and writable layers and, added up, the whole pod.
//
// A Watcher looks every 10 s at the pods that have such a limit, and has those evicted that exceed one; while there are none it asks neither
// the disk nor the runtime for anything. Run is its only goroutine, and Measure may be called beside it. What a limit means, in which order
// limits are looked at and the messages are the kubelet's (localStorageEviction in pkg/kubelet/eviction), with two exceptions: the limit of an
// init container or sidecar counts as that of any other container, and a writable layer always counts, even if the runtime has a file system of
// its own for those.
//
// An emptyDir in memory isn't looked at, as its file system is no larger than its limit. Counting files takes bounded time, and a pod with so
// many that it takes long is counted less often. The package never ends a pod itself, and never changes a file.
package storage
