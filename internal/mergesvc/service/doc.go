// Package service is the gRPC face of podconfigd: podconfig.v1.PodConfigService over a history.
//
// It reads the history and nothing else, and holds no lock while it sends. Each WatchPodUpdates runs in the goroutine that gRPC
// gave it. What it keeps for its consumer is a position: of a consumer that doesn't read, the one message that waits in the
// transport, and the pods of the catch-up that it is in the middle of, if it is in one. Who may see what is decided by package
// access before a call gets here, and applied by package view.
//
// The package starts no goroutines. Run, which the daemon calls, looks once a second for consumers that don't read.
package service
