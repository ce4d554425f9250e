// Package workload builds the pods that benchmarks merge, store and send, so that all benchmarks, also those of
// other agents, use the same pods.
//
// A pod here has three containers, like the static pods of a control plane. The package has no state and runs
// no goroutines.
package workload
