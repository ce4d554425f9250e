package kubeletapi

import (
	"cmp"
	"time"
)

// Limits limit the resources that callers can use. Each listener has its own. A zero field means the default.
type Limits struct {
	// Connections is the number of connections on which a request was allowed: an API server has one for each
	// stream. WeakConnections is the number of them whose caller has no certificate; each such user has a share
	// (package share). Default 2048 and half of that.
	Connections, WeakConnections int
	// Strangers is the number of connections on which no request was allowed yet, and StrangersPerPeer that of one
	// address; the oldest ones are closed for new ones. Default 512 and half of that.
	Strangers, StrangersPerPeer int
	// StrangerTimeout is how long a connection may remain a stranger. Default 30 s: the API server may have to
	// review its request.
	StrangerTimeout time.Duration
	// HeaderTimeout is the time limit for the handshake, and for a request's header. Default 10 s.
	HeaderTimeout time.Duration
	// BodyTimeout is the time limit for a request's body; no endpoint needs a large one. Default 30 s.
	BodyTimeout time.Duration
	// AnswerTimeout is the time limit for a request that is neither a stream, nor a log, nor a profile. Default 2
	// minutes.
	AnswerTimeout time.Duration
	// IdleTimeout is how long a connection may wait for its next request. Default 90 s, as the kubelet's.
	IdleTimeout time.Duration
	// MaxHeaderBytes is the limit of a request's header, which contains the command of an exec. Default 64 KiB.
	MaxHeaderBytes int
	// MaxBodyBytes is the limit of a request's body. Default 1 MiB.
	MaxBodyBytes int64
	// StreamsPerConnection is the limit of requests under way on one HTTP/2 connection. Default 250.
	StreamsPerConnection int
}

func (l Limits) withDefaults() Limits {
	l.Connections = cmp.Or(l.Connections, 2048)
	l.WeakConnections = cmp.Or(l.WeakConnections, max(l.Connections/2, 1))
	l.Strangers = cmp.Or(l.Strangers, 512)
	l.StrangersPerPeer = cmp.Or(l.StrangersPerPeer, max(l.Strangers/2, 1))
	l.StrangerTimeout = cmp.Or(l.StrangerTimeout, 30*time.Second)
	l.HeaderTimeout = cmp.Or(l.HeaderTimeout, 10*time.Second)
	l.BodyTimeout = cmp.Or(l.BodyTimeout, 30*time.Second)
	l.AnswerTimeout = cmp.Or(l.AnswerTimeout, 2*time.Minute)
	l.IdleTimeout = cmp.Or(l.IdleTimeout, 90*time.Second)
	l.MaxHeaderBytes = cmp.Or(l.MaxHeaderBytes, 64<<10)
	l.MaxBodyBytes = cmp.Or(l.MaxBodyBytes, 1<<20)
	l.StreamsPerConnection = cmp.Or(l.StreamsPerConnection, 250)
	return l
}

// open returns the limits of ports without authentication, where no client needs many connections.
func (l Limits) open() Limits {
	l.Connections = max(l.Connections/8, 1)
	l.WeakConnections = l.Connections // There are no others.
	l.Strangers, l.StrangersPerPeer = max(l.Strangers/4, 1), max(l.StrangersPerPeer/4, 1)
	return l
}
