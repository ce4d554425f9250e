// Package nodeindex records which revisions concern which nodes. With it, a change wakes the readers of its nodes only,
// and a reader goes from one revision of its nodes to the next, whatever number of others is between them.
//
// The history of pods and that of objects have an Index each, and guard it by their own lock. The package runs no
// goroutines.
package nodeindex
