package grpcserver

import (
	"cmp"
	"time"
)

// Limits bound what callers can make the server do. A zero field means the default.
type Limits struct {
	// MaxConnections are the connections of one listener, those before and in their handshake included. Default 10000. Each
	// listener has its own, so that a flood over TCP leaves the sockets free.
	MaxConnections int
	// ReservedConnections are those of MaxConnections that only root and the daemon's own user get, on each Unix socket: other users
	// together can't shut them out. Default 256, or a quarter of MaxConnections if that is less.
	ReservedConnections int
	// MaxConnectionsWithoutRole are those of all local users together who have no role: a few, for them to be told so. Default 16.
	MaxConnectionsWithoutRole int
	// MaxConnectionsPerPeer are one uid's or one IP address's, on all listeners. Default 1024.
	MaxConnectionsPerPeer int
	// MaxStreamsPerConnection are the calls under way on one connection; a gRPC client queues further ones. Default 256.
	MaxStreamsPerConnection int
	// MaxHealthStreams are the streams of health and reflection under way, and MaxHealthStreamsPerPeer those of one peer. They cost
	// the daemon much more than their callers. Default 256 and 16.
	MaxHealthStreams, MaxHealthStreamsPerPeer int
	// RequestsPerSecond is how many calls a peer may begin, on average. Default 500.
	RequestsPerSecond int
	// Burst is how many it may begin at once. Default four times RequestsPerSecond.
	Burst int
	// MaxRequestBytes is one request message's size. Default 4 MiB: room for the known pods of a node far larger than any.
	MaxRequestBytes int
	// HandshakeTimeout is how long a connection may take to say who it is and that it speaks HTTP/2. Default 10 s.
	HandshakeTimeout time.Duration
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
	l.HandshakeTimeout = cmp.Or(l.HandshakeTimeout, 10*time.Second)
	return l
}
