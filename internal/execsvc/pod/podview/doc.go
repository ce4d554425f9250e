// Package podview has podexecd's view of each pod, and of the pods that changed after a reader's position.
//
// The Agent writes a pod whenever part of its view changes; the gRPC services read. A reader holds a Position and
// requests the changes after it: a pod that changed often comes once, in its present state, so a slow reader costs
// nothing and gets the final state. Of removed pods only a bounded number of references is kept; a reader that was away
// for longer gets all pods instead. The board is of one process: a Position from before a restart is detected.
//
// It runs no goroutines, makes no callbacks and never waits. Its one lock is held only while data is copied.
package podview
