// Package service implements podconfig.v1.PodConfigService over a history.
//
// It only reads the history, and holds no lock while it sends. Each WatchPodUpdates runs in the goroutine that gRPC
// gave it. It keeps only a position for its consumer. For a consumer that doesn't read, it also keeps the message
// that waits in the transport, and the UIDs of the pods in the rest of its unit, with weak pointers. Package access
// decides who may see what before a call gets here; package view applies that.
//
// Lock order: consumers.mu, then sharedAmount.mu. Each other lock is held alone.
//
// The package starts no goroutines. Run, which the daemon calls, looks once a second for consumers that don't read,
// and wakes the streams if a path or the state of the store has changed.
package service
