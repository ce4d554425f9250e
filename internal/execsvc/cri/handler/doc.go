// Package handler runs the handlers of probes and hooks: it runs a command in a container, sends a GET request, opens a
// connection, calls a gRPC health service, or sleeps.
//
// Package probe calls Probe, package runtime calls Hook. The package runs no goroutines beyond a call, keeps no
// connections, and doesn't decide on consequences for the pod. Success, headers and limits are the kubelet's
// (pkg/probe, pkg/kubelet/lifecycle), except for the size of an answer's headers and of a gRPC message, for which the
// kubelet allows many megabytes.
package handler
