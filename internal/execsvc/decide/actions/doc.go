// Package actions decides a pod's next actions: which of its containers to stop, remove, create and start, given its
// state in the runtime and the results of its probes.
//
// Compute is a pure function of its input. Package runtime calls it and carries the actions out; the pod's worker calls
// it to see whether there are more. Restarts has the rules on restarts, which package status uses too. The package
// makes no calls, runs no goroutines, and doesn't decide on backoffs. The rules are those of the kubelet's
// computePodActions.
package actions
