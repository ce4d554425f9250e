// Package failover holds one connection to one of several podconfigds. Package client imports it.
//
// A candidate is one address: a Unix socket, or one of the addresses of a host name. Conn implements
// grpc.ClientConnInterface: every call uses the current connection, so all streams of a client have one server. If
// there is no connection, the next call selects one: it tries the candidates in the client's order, each for at most
// checkTimeout, and takes the first one whose health service answers SERVING. If none does, it takes the first one
// that answered at all: its pods may be outdated, but the client would otherwise have none.
//
// The order is that of the configuration (Listed), or one that differs from client to client. Within a host name it
// always differs. It is derived from the client's key, so a client prefers the same server after a restart.
//
// A connection is kept until one of these happens:
//
//   - It breaks, or the server ends a stream with UNAVAILABLE, sends nothing on a stream for too long
//     (stream.ErrSilent), refuses WatchPodUpdates, or is behind the client (stream.ErrBehind). The next selection tries
//     this server last.
//   - Its server isn't SERVING at two successive checks, and another one is.
//   - It is older than Config.ReturnAfter, and its server isn't the preferred one, and that one is SERVING.
//
// A move closes the connection, which ends its streams with UNAVAILABLE. Their consumers subscribe again, and resume
// at their cursors.
//
// gRPC's own policies do a part of this. pick_first doesn't leave a server that isn't SERVING, and with gRPC's health
// checks it makes no calls if no server is. round_robin has a connection to each server. A subchannel that is
// replaced keeps its streams, which here must move. The health checks need a stream for each client, which podconfigd
// limits. So each candidate has a grpc.ClientConn of its own, with gRPC's connecting, TLS and keepalive, and this
// package only decides which one is in use.
//
// Clients whose orders differ spread evenly, and after a server was away they do so again once their connections have that
// age: the part of each server then depends on the orders alone.
//
// Once it has several candidates, or a host name that may get more addresses, Conn runs one goroutine, which ends with Close. Conn never retries a call.
package failover
