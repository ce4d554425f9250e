// Package observed has a pod's state in the container runtime as values: its sandboxes and its containers, dead ones
// too.
//
// Assemble makes them of the CRI's lists. Package runtime reads these, the pleg caches the pods, and package actions and
// others decide by them. They never change once they are made. The package runs no goroutines and makes no calls.
package observed
