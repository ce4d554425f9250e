// Package runtime is podexecd's side of the CRI: it reads what a container runtime has of our pods, and does what package actions says
// that a pod needs next.
//
// Workers call SyncPod, KillPod and Purge for their own pod, one at a time for each pod; the pleg calls List and Status. It runs
// no goroutines of its own beyond a call. What it never does: touch a sandbox that isn't marked as this agent's.
//
// Names, labels, annotations and log paths are the kubelet's (pkg/kubelet/kuberuntime).
package runtime
