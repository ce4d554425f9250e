// Package dns says what a pod's resolv.conf is made of: its dnsPolicy and dnsConfig, the cluster's DNS servers, and the node's
// resolv.conf, with the limits and the warnings of the kubelet (its pkg/kubelet/network/dns).
//
// It is asked whenever a sandbox is described to the runtime. It reads one file, the node's resolv.conf, anew each time; beyond that it
// is pure, runs no goroutines, and writes nothing: the runtime makes the pod's file.
package dns
