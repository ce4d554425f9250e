// Package board is what podexecd shows: each pod as it is now, and which of them changed since a reader last looked.
//
// The Agent writes a pod whenever something of it becomes another; the gRPC services read. A reader holds a Position and asks for what
// changed after it: a pod that changed often comes once, as it is now, so a slow reader costs nothing and misses nothing of the final
// state. Of pods that are gone only the reference is remembered, and of so many only; a reader that was away for longer gets all pods
// instead. The board lives as long as the process: a Position of an earlier one is told from those of this one.
//
// It runs no goroutines, calls nobody back and never waits. Its one lock is held for as long as it takes to copy.
package board
