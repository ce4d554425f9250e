// Package runtime is podexecd's side of the CRI: it reads what a container runtime has of our pods, and does what package actions
// says that a pod needs next.
//
// Workers call SyncPod, KillPod and Purge for their own pod, one at a time for each pod; the pleg calls List, Status and Watch;
// whoever looks into a container calls ReadLog and Exec. It runs no goroutines of its own beyond a call. It pulls no images: it
// asks for them, and starts without waiting what has its image. What it never does: touch a sandbox that isn't marked as this
// agent's.
//
// Names, labels, annotations and log paths are the kubelet's (pkg/kubelet/kuberuntime). What it remembers of containers (how they
// ended, which hooks have run) is lost with this process; what a restart must not change is in the runtime or on disk.
package runtime
