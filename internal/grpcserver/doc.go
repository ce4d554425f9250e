// Package grpcserver is how both daemons serve gRPC: addresses, interceptors, health and reflection, start and graceful end.
//
// Serve runs one goroutine for each listener and waits for them. The services themselves are registered by the daemons.
package grpcserver
