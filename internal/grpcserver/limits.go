package grpcserver

import (
	"cmp"
	"runtime"
	"time"
)

// Limits bound the server's work for callers. A zero field means the default. A peer is a uid, or over TCP an
// identity at an IP address. All peers at one address together have four times as much as one. A quarter of that is
// for consumers and operators, and no peer gets more than is free.
type Limits struct {
	// MaxConnections is the maximum number of connections of one listener, including those before and in their
	// handshake. Default 10000. Each listener has its own, so that a flood over TCP doesn't affect the sockets.
	MaxConnections int
	// ReservedConnections is the part of MaxConnections that only root and the daemon's own user get, on each Unix
	// socket, so that other users can't exclude them. Default 256, or a quarter of MaxConnections if that is less.
	ReservedConnections int
	// MaxConnectionsWithoutRole is for all local users without a role together, who only get an error. Default 16.
	MaxConnectionsWithoutRole int
	// MaxConnectionsPerPeer is for one peer, on all listeners. Default 1024. Over TCP the handshake determines the
	// identity. Before that, a connection counts for its address, and a new one displaces the oldest if the address
	// or listener has too many.
	MaxConnectionsPerPeer int
	// MaxStreamsPerConnection is the maximum number of calls under way on one connection; a gRPC client queues
	// further ones. Default 256.
	MaxStreamsPerConnection int
	// MaxHealthStreams is the maximum number of streams of health and reflection, and MaxHealthStreamsPerPeer that of
	// one peer. They cost the daemon much more than their callers. Default 256 and 16.
	MaxHealthStreams, MaxHealthStreamsPerPeer int
	// RequestsPerSecond is the average number of calls that a peer may start. Default 500.
	RequestsPerSecond int
	// Burst is the number of calls that a peer may start at once. Default four times RequestsPerSecond.
	Burst int
	// MaxRequestBytes is the maximum size of one request message. Default 4 MiB, enough for the known pods of very
	// large nodes.
	MaxRequestBytes int
	// MaxCallsPerPeer is the maximum number of calls of one peer under way, on all its connections, and
	// MaxUnaryCallsPerPeer that of the unary ones among them. They don't apply to root and the daemon's own user.
	// Default 2048 and 64.
	MaxCallsPerPeer, MaxUnaryCallsPerPeer int
	// MaxReceivingPerPeer is the number of streams of one peer whose requests are received at once; further ones
	// wait. Default 16.
	MaxReceivingPerPeer int
	// RequestTimeout is the time limit for sending a call's request. Default 30 s.
	RequestTimeout time.Duration
	// HandshakeTimeout is the time limit for the handshakes of TLS and HTTP/2, without the time in which the server lets
	// the handshake wait. Default 10 s.
	HandshakeTimeout time.Duration
	// MaxHandshakes is the number of TLS handshakes that compute at once. Others wait, and are refused at once if that
	// would take 4 s or more. Default GOMAXPROCS.
	MaxHandshakes int
}

func (l Limits) withDefaults() Limits {
	l.MaxConnections = cmp.Or(l.MaxConnections, 10_000)
	l.ReservedConnections = cmp.Or(l.ReservedConnections, min(256, l.MaxConnections/4))
	l.MaxConnectionsWithoutRole = cmp.Or(l.MaxConnectionsWithoutRole, 16)
	l.MaxConnectionsPerPeer = cmp.Or(l.MaxConnectionsPerPeer, 1024)
	l.MaxStreamsPerConnection = cmp.Or(l.MaxStreamsPerConnection, 256)
	l.MaxHealthStreams = cmp.Or(l.MaxHealthStreams, 256)
	l.MaxHealthStreamsPerPeer = cmp.Or(l.MaxHealthStreamsPerPeer, 16)
	l.RequestsPerSecond = cmp.Or(l.RequestsPerSecond, 500)
	l.Burst = cmp.Or(l.Burst, 4*l.RequestsPerSecond)
	l.MaxRequestBytes = cmp.Or(l.MaxRequestBytes, 4<<20)
	l.MaxCallsPerPeer = cmp.Or(l.MaxCallsPerPeer, 2048)
	l.MaxUnaryCallsPerPeer = cmp.Or(l.MaxUnaryCallsPerPeer, 64)
	l.MaxReceivingPerPeer = cmp.Or(l.MaxReceivingPerPeer, 16)
	l.RequestTimeout = cmp.Or(l.RequestTimeout, 30*time.Second)
	l.HandshakeTimeout = cmp.Or(l.HandshakeTimeout, 10*time.Second)
	l.MaxHandshakes = cmp.Or(l.MaxHandshakes, runtime.GOMAXPROCS(0))
	return l
}
