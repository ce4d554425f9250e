// Package podsapi serves the kubelet's Pods API (k8s.io/kubelet/pkg/apis/pods, KEP-4188): node agents get the node's
// pods with their current statuses without an API server.
//
// It reads the board. A pod that was only found running isn't served before a source has claimed it, because its
// spec is unknown. Clients get whole pods, so the socket must be accessible to root only. It starts no goroutines;
// Close ends the streams.
package podsapi
