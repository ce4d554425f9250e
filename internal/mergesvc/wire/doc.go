// Package wire encodes units as podconfig.v1.WatchPodUpdatesResponse, so that a pod is encoded once for all
// consumers.
//
// A Frame is an encoded message; Codec is the gRPC codec that sends it as it is, and all other messages as usual. A
// Frame's pods are the bytes that package revision caches; only the cursor, which differs between consumers, is
// appended. Package service calls it. The package keeps nothing, runs no goroutines, and sends nothing itself.
package wire
