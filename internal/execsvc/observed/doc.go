// Package observed holds what a container runtime has of a pod, as values: its sandboxes and its containers, dead ones too.
//
// Package runtime reads them, the pleg keeps the last ones, and whoever decides about a pod decides on them. They never change once they are
// made. The package runs no goroutines and makes no calls.
package observed
