// Package observed has a pod's state in the container runtime as values: its sandboxes and its containers, dead ones
// too.
//
// Package runtime reads them, the pleg caches them, and package actions and others decide by them. They never change
// once they are made. The package runs no goroutines and makes no calls.
package observed
