// Package handler carries out what a pod's author asks for in probes and hooks: to run a command in a container, GET a URL, open a
// connection, ask a gRPC service for its health, or sleep.
//
// Package probe calls Probe, package runtime calls Hook. It runs no goroutines beyond a call, keeps no connections, and decides nothing
// about what an answer means for the pod. What counts as success, the headers and the limits are the kubelet's (pkg/probe,
// pkg/kubelet/lifecycle), but for the size of an answer's headers and of a gRPC message, which the kubelet leaves at many megabytes.
package handler
