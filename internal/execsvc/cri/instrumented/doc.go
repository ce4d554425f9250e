// Package instrumented counts and times the calls to the container runtime, with the kubelet's names of the operations.
//
// podexecd wraps the runtime's clients with it. It changes no call, and runs no goroutines.
package instrumented
