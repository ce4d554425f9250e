// Package actions decides what a pod needs next: Compute is a pure function of the pod and of what the runtime has of it.
//
// Package runtime carries its Actions out. The rules are those of the kubelet's computePodActions
// (pkg/kubelet/kuberuntime/kuberuntime_manager.go). It makes no calls and runs no goroutines.
package actions
