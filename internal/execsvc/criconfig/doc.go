// Package criconfig translates a v1.Pod into what a container runtime understands: the CRI's sandbox and container configurations,
// with the kubelet's labels, annotations and log paths (pkg/kubelet/kuberuntime).
//
// It is pure: functions of values, no calls, no files, no state. Package runtime makes the calls with what it returns; volume,
// status and admit use its words for mounts, QoS and UIDs.
package criconfig
