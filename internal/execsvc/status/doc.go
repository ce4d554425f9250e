// Package status says in Kubernetes' words how a pod is: it makes a v1.PodStatus from the pod, from what the runtime has of it,
// and from the status before, and keeps the last one of each pod.
//
// Generate is a pure function; a pod's worker calls it whenever it has looked at the runtime. The Keeper holds the results for
// whoever shows them. No goroutines are run here, and nothing is asked of the runtime.
//
// The rules are the kubelet's (pkg/kubelet/kubelet_pods.go, pkg/kubelet/status/generate.go), but that nothing depends on
// whether a pod is static. What the probes say comes with the input.
package status
