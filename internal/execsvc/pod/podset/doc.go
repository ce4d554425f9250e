// Package podset holds the desired pods of this node, as podconfigd's stream sends them.
//
// The sync loop writes it, one op at a time; workers, status and housekeeping read it. It has no state of running pods.
// It runs no goroutines.
package podset
