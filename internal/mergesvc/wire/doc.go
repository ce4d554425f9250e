// Package wire puts what consumers are sent into the bytes of podconfig.v1.WatchPodUpdatesResponse, so that a pod is encoded
// once for all of them.
//
// A Frame is a message that is bytes already; Codec is the gRPC codec that sends it as it is, and everything else as usual. A
// Frame's pods are the bytes that package revision keeps; only what differs from consumer to consumer, the cursor, is put
// behind them. Package service calls it. It keeps nothing, runs no goroutines, and sends nothing itself.
package wire
