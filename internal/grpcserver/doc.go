// Package grpcserver is how both daemons serve gRPC: addresses, who may call, limits, interceptors, health and reflection, start
// and graceful end.
//
// A connection is counted by its peer at accept, before anything is read from it (guard); package access then tells who it is. A
// call is first of all checked for its role, before its message is read, and then for its peer's rate. Callers over a limit are
// refused and counted; the others don't notice.
//
// The daemons call it and register their services. Serve runs one goroutine for each listener and one that looks after the
// connections, and waits for them. No lock is held while another is taken.
package grpcserver
