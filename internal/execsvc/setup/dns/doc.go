// Package dns computes a pod's resolv.conf from its dnsPolicy and dnsConfig, the cluster's DNS servers and the node's
// resolv.conf, with the kubelet's limits and warnings (pkg/kubelet/network/dns).
//
// It is called for each sandbox config. It reads one file each time, the node's resolv.conf; otherwise it is pure,
// runs no goroutines, and writes nothing: the runtime writes the pod's file.
package dns
