// Package grpcserver is how both daemons serve gRPC: addresses, who may call, limits, interceptors, health and reflection, start
// and graceful end.
//
// A connection is counted by its peer at accept, before anything is read from it (guard). On a Unix socket the kernel has told by
// then who it is: local users without a role get a few connections together, and the last ones are root's. Over TCP package access
// tells after the handshake. A call is first of all checked for its role, before its message is read, and then for its peer's rate;
// streams of health and reflection are counted. Callers over a limit are refused and counted; the others don't notice.
//
// A Unix socket's path is locked (PATH.lock) before a dead socket is replaced and until the listener closes.
//
// The daemons call it and register their services. Serve runs one goroutine for each listener, one that looks after the connections
// and one that ends them, and waits for them; each stream of health or reflection has one besides gRPC's. No lock is held while
// another is taken.
package grpcserver
