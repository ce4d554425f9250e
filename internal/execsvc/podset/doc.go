// Package podset holds the pods that this node is asked to run, as the stream from podconfigd tells them.
//
// The sync loop writes it, one op at a time; workers, status and housekeeping read it. It knows nothing of what runs. It runs
// no goroutines.
package podset
