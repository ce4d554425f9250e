// Package view computes what one consumer sees of the stream: which pods, by its filter and the scope of its role,
// and as which ops, by its notification mode.
//
// A View turns a revision into the changes of its consumer: an ADD or REMOVE where a change moves a pod into the
// filter or out of it, and a SET where the mode requires one. It owns the hash in cursors by which a cursor of
// another view is detected. The stream and the lists (mergesvc/service) make Views; catchup receives one.
//
// Views are immutable and shared. The package runs no goroutines, does no I/O, and reads a state only for a SET: a
// revision has the previous versions of its pods.
package view
