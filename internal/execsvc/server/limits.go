package server

import (
	"cmp"
	"time"
)

// Limits bound what callers can make a Server do. Each listener has its own. A zero field means the default.
type Limits struct {
	// Connections are those on which a request was let in, and ConnectionsPerPeer one address's. Default 2048 and half of that: an API
	// server has one for each stream.
	Connections, ConnectionsPerPeer int
	// Strangers are the connections on which none was let in yet, and StrangersPerPeer one address's: the oldest make room for others.
	// Default 512 and half of that.
	Strangers, StrangersPerPeer int
	// StrangerTimeout is how long a connection may remain a stranger's. Default 30 s: the API server may have to be asked.
	StrangerTimeout time.Duration
	// HeaderTimeout is for the handshake, and for a request's header. Default 10 s.
	HeaderTimeout time.Duration
	// BodyTimeout is for a request's body, which nothing here needs a large one of. Default 30 s.
	BodyTimeout time.Duration
	// AnswerTimeout is for the whole of a request that is neither a stream, nor a log, nor a profile. Default 2 minutes.
	AnswerTimeout time.Duration
	// IdleTimeout is how long a connection may wait for its next request. Default 90 s, as the kubelet's.
	IdleTimeout time.Duration
	// MaxHeaderBytes is a request's header, with the command of an exec in it. Default 64 KiB.
	MaxHeaderBytes int
	// MaxBodyBytes is a request's body. Default 1 MiB.
	MaxBodyBytes int64
	// StreamsPerConnection are the requests under way on one HTTP/2 connection. Default 250.
	StreamsPerConnection int
}

func (l Limits) withDefaults() Limits {
	l.Connections = cmp.Or(l.Connections, 2048)
	l.ConnectionsPerPeer = cmp.Or(l.ConnectionsPerPeer, max(l.Connections/2, 1))
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

// open are the limits where everybody may ask, and only little: no connection there needs to be one of many.
func (l Limits) open() Limits {
	l.Connections, l.ConnectionsPerPeer = max(l.Connections/8, 1), max(l.ConnectionsPerPeer/8, 1)
	l.Strangers, l.StrangersPerPeer = max(l.Strangers/4, 1), max(l.StrangersPerPeer/4, 1)
	return l
}
