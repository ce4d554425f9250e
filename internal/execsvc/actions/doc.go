// Package actions decides what a pod needs next: which of its containers to stop, remove, make and start, given what the runtime
// has of it and what its probes say.
//
// Compute is a pure function of its input, called by package runtime, which carries the actions out, and by the pod's worker, to
// see whether more is to be done. Restarts and IsSidecar are its rules on restarts, which package status shares. It makes no
// calls and runs no goroutines; how long a restart has to wait isn't decided here. The rules are those of the kubelet's
// computePodActions.
package actions
