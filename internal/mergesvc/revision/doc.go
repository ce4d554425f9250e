// Package revision holds the values that flow through podconfigd: a merge makes a Revision, the history keeps it, and every
// consumer's stream reads it.
//
// A Revision and the Pods in it never change once they are published, so they are shared by all goroutines without locks. A
// Pod is encoded at most once for each format, by whoever asks first. The package runs no goroutines and does no I/O.
package revision
