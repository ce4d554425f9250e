// Package criconfig translates a v1.Pod to CRI messages: the configs of its sandbox and containers, with the kubelet's
// labels, annotations and log paths (pkg/kubelet/kuberuntime).
//
// It is pure: functions of values, without calls or state. Of the machine it reads only constants: the page size and
// which paths show temperatures. Other properties of the node are in a Node. Package runtime makes the CRI calls;
// volume, cgroup, status and admit use its types for mounts and resources. Package podmeta has the properties of a pod
// that aren't part of the translation.
//
// testdata/golden has a pod for each setting that the translation reads, and the resulting messages.
package criconfig
