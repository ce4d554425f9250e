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
	// MaxConnectionsPerPeer are one uid's or one IP address's, on all listeners. Default 1024.
	MaxConnectionsPerPeer int
	// MaxStreamsPerConnection are the calls under way on one connection; a gRPC client queues further ones. Default 256.
	MaxStreamsPerConnection int
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
	l.MaxConnectionsPerPeer = cmp.Or(l.MaxConnectionsPerPeer, 1024)
	l.MaxStreamsPerConnection = cmp.Or(l.MaxStreamsPerConnection, 256)
	l.RequestsPerSecond = cmp.Or(l.RequestsPerSecond, 500)
	l.Burst = cmp.Or(l.Burst, 4*l.RequestsPerSecond)
	l.MaxRequestBytes = cmp.Or(l.MaxRequestBytes, 4<<20)
	l.HandshakeTimeout = cmp.Or(l.HandshakeTimeout, 10*time.Second)
	return l
}
