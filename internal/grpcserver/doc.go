// Package grpcserver serves gRPC for both daemons: addresses, authorization, limits, interceptors, health and
// reflection, start and graceful stop.
//
// A connection is counted by its peer when it is accepted, before anything is read from it (guard). On a Unix socket
// the kernel has reported the caller by then: all local users without a role share a few connections, and the last
// ones are reserved for root. Over TCP package access determines the caller in the handshake, and from then on a
// connection counts for its identity at that address, as its calls do (shares): so a caller without rights can't
// exclude another one behind the same address. A call is first authorized by its role, before its message is read,
// and then checked against its peer's rate; streams of health and reflection are counted. Callers over a limit are
// refused and counted, without effect on the others.
//
// TLS handshakes compute a few at a time (turns), so that a fleet that reconnects gets in one after another, rather than
// timing out together.
//
// A Unix socket's path is locked (PATH.lock) before a dead socket is replaced and until the listener closes.
//
// The daemons call it and register their services. Serve runs one goroutine for each listener, one that rechecks the
// connections and one that ends them, and waits for them; each stream of health or reflection has one beside gRPC's.
// No lock is held while another is taken.
package grpcserver
