// Package view is what one consumer sees of the stream: which pods, by its filter and the scope of its role, and as which ops,
// by its notification mode.
//
// A View turns a revision into the changes that its consumer gets: enter and leave where a pod's change takes it into the filter
// or out of it, and a SET where the mode wants one. It owns the hash that cursors carry, so that a cursor of another view is
// recognised. The stream and the lists (mergesvc/service) make Views; catchup is given one.
//
// Views are immutable and shared freely. The package runs no goroutines, does no I/O, and looks at a state only for a SET:
// what a pod was before, a revision tells.
package view
