// Package workload builds the pods that benchmarks merge, store and send, so that all of them, and those of other
// agents that they are compared with, have the same.
//
// A pod here has three containers, like the static pods of a control plane. The package keeps nothing and runs no
// goroutines.
package workload
