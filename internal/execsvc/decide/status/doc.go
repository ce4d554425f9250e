// Package status computes a v1.PodStatus from the pod, its state in the runtime and its previous status, and keeps the
// last status of each pod.
//
// Generate is a pure function; a pod's worker calls it after each reading of the runtime. The Keeper holds the results
// for the pod view and the API server. The package runs no goroutines and doesn't call the runtime.
//
// The rules are the kubelet's (pkg/kubelet/kubelet_pods.go, pkg/kubelet/status/generate.go), except that nothing
// depends on whether a pod is static. Probe results are part of the input.
package status
