// Package runtime is podexecd's client of the CRI. It reads the state of this agent's pods from the container runtime,
// and carries out the actions that package actions decides on.
//
// Workers call SyncPod, KillPod and Purge for their own pod, one call at a time for each pod. The pleg calls List,
// Status and Watch. Requests of callers call ReadLog, Exec, Attach and ForwardPort. The package runs no goroutines beyond a call. It
// doesn't pull images: it requests them, and starts the containers that have theirs without waiting for the others. It
// never touches a sandbox that isn't marked as this agent's.
//
// Names, labels, annotations and log paths are the kubelet's (pkg/kubelet/kuberuntime). Its caches (how containers
// ended, which hooks have run) are lost with the process. State that must survive a restart is in the runtime or on
// disk.
package runtime
