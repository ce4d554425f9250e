// Package service is the gRPC face of podconfigd: podconfig.v1.PodConfigService over a history.
//
// It reads the history and nothing else; it never holds a lock while it sends. Each WatchPodUpdates runs in the goroutine that
// gRPC gave it, and what it keeps for its consumer is a position, one batch of revisions and the consumer's undecided known
// pods. The package starts no goroutines.
//
// What later versions fill (other modes and filters on the stream, consumers, reports, objects) answers UNIMPLEMENTED.
package service
