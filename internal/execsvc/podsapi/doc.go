// Package podsapi serves the kubelet's Pods API (k8s.io/kubelet/pkg/apis/pods, KEP-4188): agents of a node ask it for the pods there,
// each with its status as it is now, and need no API server for that.
//
// It reads the board. A pod that was only found running isn't served before a source has claimed it, as nothing is known of its spec.
// Whoever reaches the socket sees whole pods, so it is to be one for root only. It starts no goroutines; Close ends the streams.
package podsapi
