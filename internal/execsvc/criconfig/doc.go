// Package criconfig translates a v1.Pod into what a container runtime understands: the CRI's sandbox and container configurations,
// with the kubelet's labels, annotations and log paths (pkg/kubelet/kuberuntime).
//
// It is pure: functions of values, no calls, no state, and of the machine it reads only what never changes: the size of a page and which
// paths show temperatures. What else depends on the node comes as a Node. Package runtime makes the calls with what it returns; volume,
// cgroup, status and admit use its words for mounts, resources, QoS and UIDs.
//
// testdata/golden has a pod for each thing that a pod's author can say here, and what the runtime is told of it.
package criconfig
