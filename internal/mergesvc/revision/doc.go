// Package revision has the values that flow through podconfigd: a merge makes a Revision, the history keeps it, and
// every consumer's stream reads it.
//
// A Revision and its Pods are immutable once they are published, so all goroutines share them without locks. A Pod is
// encoded at most once for each format, when that is first needed. The package runs no goroutines and does no I/O.
package revision
