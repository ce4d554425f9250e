package server

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/podstream/podstream/internal/execsvc/server/auth"
)

var (
	errTooMany         = errors.New("too many connections")
	errTooManyOfPeer   = errors.New("too many connections of this peer")
	errDisplaced       = errors.New("no request was let in on it, and its place went to another")
	errStillAStranger  = errors.New("no request was let in on it in time")
	errClosedByTheNode = errors.New("the connection is closed")
)

// guard is a listener that bounds its connections. A connection is a stranger's until known is called.
type guard struct {
	net.Listener
	limits   Limits
	refusals *refusals

	mu    sync.Mutex
	peers map[string]*peerCounts
	// strangers are *conn, the oldest first.
	strangers list.List
	known     map[*conn]struct{}
}

type peerCounts struct{ strangers, known int }

func newGuard(l net.Listener, limits Limits, refusals *refusals) *guard {
	return &guard{Listener: l, limits: limits, refusals: refusals, peers: map[string]*peerCounts{}, known: map[*conn]struct{}{}}
}

// conn is a connection in a guard's count, until it closes.
type conn struct {
	net.Conn
	guard *guard
	peer  string
	// timer ends it unless it becomes known.
	timer *time.Timer
	// place is its own among the strangers. It is nil if it isn't one; open is false once it is in no count. The guard's lock is over both.
	place *list.Element
	open  bool
}

// Accept returns the next connection within the limits, and closes those beyond.
func (g *guard) Accept() (net.Conn, error) {
	for {
		accepted, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: accepted, guard: g, peer: auth.Peer(accepted.RemoteAddr().String())}
		displaced, err := g.admit(c)
		if displaced != nil {
			g.refusals.add("connections", refused{peer: displaced.peer, err: errDisplaced})
			_ = displaced.Conn.Close()
		}
		if err == nil {
			return c, nil
		}
		g.refusals.add("connections", refused{peer: c.peer, err: err})
		_ = accepted.Close()
	}
}

// admit counts a newcomer, or tells why not. Where a stranger had to make room, one of the same peer if that has enough of them, it is out of the
// count, and to be closed.
func (g *guard) admit(c *conn) (displaced *conn, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	counts := g.peers[c.peer]
	if counts == nil {
		counts = &peerCounts{}
	}
	switch {
	case counts.known >= g.limits.ConnectionsPerPeer:
		return nil, errTooManyOfPeer
	case counts.strangers >= g.limits.StrangersPerPeer:
		displaced = g.oldest(c.peer)
	case g.strangers.Len() >= g.limits.Strangers:
		displaced = g.oldest("")
	}
	if displaced != nil {
		g.drop(displaced)
	}
	// They are in the map only as long as they count something.
	g.peers[c.peer] = counts
	counts.strangers++
	c.open, c.place = true, g.strangers.PushBack(c)
	c.timer = time.AfterFunc(g.limits.StrangerTimeout, c.expire)
	return displaced, nil
}

// oldest is the oldest stranger of the peer, or of all if that is empty.
func (g *guard) oldest(peer string) *conn {
	for e := g.strangers.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*conn); peer == "" || c.peer == peer { //nolint:forcetypeassert // The list holds nothing else.
			return c
		}
	}
	return nil
}

// drop takes a connection out of the count.
func (g *guard) drop(c *conn) {
	if !c.open {
		return
	}
	c.open = false
	c.timer.Stop()
	counts := g.peers[c.peer]
	if c.place != nil {
		g.strangers.Remove(c.place)
		c.place = nil
		counts.strangers--
	} else {
		delete(g.known, c)
		counts.known--
	}
	if *counts == (peerCounts{}) {
		delete(g.peers, c.peer)
	}
}

// expire ends a connection that is still a stranger's.
func (c *conn) expire() {
	c.guard.mu.Lock()
	stranger := c.open && c.place != nil
	if stranger {
		c.guard.drop(c)
	}
	c.guard.mu.Unlock()
	if stranger {
		c.guard.refusals.add("connections", refused{peer: c.peer, err: errStillAStranger})
		_ = c.Conn.Close()
	}
}

// welcome makes the connection a known one's, as a request on it is let in. An error means that there are too many of those.
func (c *conn) welcome() error {
	g := c.guard
	g.mu.Lock()
	defer g.mu.Unlock()
	switch counts := g.peers[c.peer]; {
	case !c.open:
		return errClosedByTheNode
	case c.place == nil:
		return nil
	case len(g.known) >= g.limits.Connections:
		return errTooMany
	case counts.known >= g.limits.ConnectionsPerPeer:
		return errTooManyOfPeer
	default:
		g.strangers.Remove(c.place)
		c.place = nil
		c.timer.Stop()
		g.known[c] = struct{}{}
		counts.strangers--
		counts.known++
		return nil
	}
}

// stranger tells whether no request was let in on it yet.
func (c *conn) stranger() bool {
	c.guard.mu.Lock()
	defer c.guard.mu.Unlock()
	return c.place != nil
}

// Close closes the connection.
func (c *conn) Close() error {
	c.guard.mu.Lock()
	c.guard.drop(c)
	c.guard.mu.Unlock()
	return c.Conn.Close()
}

// closeAll closes all connections that are left.
func (g *guard) closeAll() {
	g.mu.Lock()
	var left []*conn
	for e := g.strangers.Front(); e != nil; e = e.Next() {
		left = append(left, e.Value.(*conn)) //nolint:forcetypeassert // The list holds nothing else.
	}
	for c := range g.known {
		left = append(left, c)
	}
	g.mu.Unlock()
	for _, c := range left {
		_ = c.Close()
	}
}

type connKey struct{}

// withConn lets a request find its connection.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if over, ok := c.(*tls.Conn); ok {
		c = over.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

func connOf(ctx context.Context) *conn {
	c, _ := ctx.Value(connKey{}).(*conn)
	return c
}
