package kubeletapi

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/podstream/podstream/internal/execsvc/machine/share"
	"github.com/podstream/podstream/internal/execsvc/serve/kubeletapi/auth"
)

// guard is a listener that limits its connections. A connection is a stranger until welcome is called.
type guard struct {
	net.Listener
	limits   Limits
	refusals *refusals

	// places are the places of known connections, and weak those of them whose callers have no certificate.
	places, weak *share.Pool

	mu sync.Mutex
	// peers is the number of strangers of each peer.
	peers map[string]int
	// strangers are *conn, the oldest first.
	strangers list.List
	known     map[*conn]struct{}
}

func newGuard(l net.Listener, limits Limits, refusals *refusals) *guard {
	return &guard{
		Listener: l, limits: limits, refusals: refusals, places: share.New(limits.Connections), weak: share.New(limits.WeakConnections),
		peers: map[string]int{}, known: map[*conn]struct{}{},
	}
}

// conn is a connection that its guard counts, until it closes.
type conn struct {
	net.Conn
	guard *guard
	// peer is the value by which strangers are counted, and address one of the addresses that it may have.
	peer, address string
	// leave releases the place of a known connection.
	leave func()
	// timer closes a stranger.
	timer *time.Timer
	// place is its place among the strangers; nil if it is known. open is false once it isn't counted any more. The
	// guard's lock protects both.
	place *list.Element
	open  bool
}

// Accept returns the next connection. If there are too many strangers, it closes another one.
func (g *guard) Accept() (net.Conn, error) {
	accepted, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	remote := accepted.RemoteAddr().String()
	c := &conn{Conn: accepted, guard: g, peer: auth.Peer(remote), address: auth.Address(remote)}
	if displaced := g.admit(c); displaced != nil {
		g.refusals.add("connections", refused{peer: displaced.address, err: errDisplaced})
		_ = displaced.Conn.Close()
	}
	return c, nil
}

// admit counts a new connection. If another stranger has to be closed for it, that is no longer counted, and
// returned. It is one of the same peer if that has too many.
func (g *guard) admit(c *conn) (displaced *conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.peers[c.peer] >= g.limits.StrangersPerPeer:
		displaced = g.oldestOf(c.peer)
	case g.strangers.Len() >= g.limits.Strangers:
		displaced = g.strangers.Front().Value.(*conn) //nolint:forcetypeassert // The list holds nothing else.
	}
	if displaced != nil {
		g.drop(displaced)
	}
	g.peers[c.peer]++
	c.open, c.place = true, g.strangers.PushBack(c)
	c.timer = time.AfterFunc(g.limits.StrangerTimeout, c.expire)
	return displaced
}

// oldestOf returns the oldest of the peer's strangers from the address that has most of them: a peer may be the
// network of many callers.
func (g *guard) oldestOf(peer string) *conn {
	var (
		first = map[string]*conn{}
		count = map[string]int{}
		most  *conn
	)
	for e := g.strangers.Front(); e != nil; e = e.Next() {
		c := e.Value.(*conn) //nolint:forcetypeassert // The list holds nothing else.
		if c.peer != peer {
			continue
		}
		if first[c.address] == nil {
			first[c.address] = c
		}
		if count[c.address]++; most == nil || count[c.address] > count[most.address] {
			most = first[c.address]
		}
	}
	return most
}

// drop removes a connection from the counts.
func (g *guard) drop(c *conn) {
	if !c.open {
		return
	}
	c.open = false
	c.timer.Stop()
	if c.place != nil {
		g.remove(c)
		return
	}
	delete(g.known, c)
	c.leave()
}

// remove removes a connection from the strangers.
func (g *guard) remove(c *conn) {
	g.strangers.Remove(c.place)
	c.place = nil
	if g.peers[c.peer]--; g.peers[c.peer] == 0 {
		delete(g.peers, c.peer)
	}
}

// expire closes a connection that is still a stranger.
func (c *conn) expire() {
	c.guard.mu.Lock()
	stranger := c.open && c.place != nil
	if stranger {
		c.guard.drop(c)
	}
	c.guard.mu.Unlock()
	if stranger {
		c.guard.refusals.add("connections", refused{peer: c.address, err: errStillAStranger})
		_ = c.Conn.Close()
	}
}

// welcome makes the connection a known one, when a request of the user on it is allowed. The user is nil where
// requests need no authentication. An error means that there are too many known connections.
func (c *conn) welcome(user *auth.User) error {
	g := c.guard
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !c.open:
		return errClosedByTheNode
	case c.place == nil:
		return nil
	}
	leave, err := g.take(c, user)
	if err != nil {
		return err
	}
	g.remove(c)
	c.timer.Stop()
	c.leave = leave
	g.known[c] = struct{}{}
	return nil
}

// take takes the place of a known connection. Callers without a certificate have places of their own, and each user
// a share of them: so they block neither each other nor the API server, from whatever address they connect.
func (g *guard) take(c *conn, user *auth.User) (leave func(), err error) {
	if user != nil && user.Certificate {
		return g.placed(g.places.Take())
	}
	holder := share.Holder{Name: "peer " + c.peer}
	if user != nil && !user.Anonymous() {
		holder.Name = "user " + user.Name
	}
	ofWeak, err := g.placed(g.weak.Take(holder))
	if err != nil {
		return nil, err
	}
	ofAll, err := g.placed(g.places.Take())
	if err != nil {
		ofWeak()
		return nil, err
	}
	return func() {
		ofAll()
		ofWeak()
	}, nil
}

// placed converts the error of a Pool.
func (g *guard) placed(leave func(), err error) (func(), error) {
	var full *share.Error
	switch {
	case errors.As(err, &full):
		return nil, errTooManyOfCaller
	case err != nil:
		return nil, errTooMany
	default:
		return leave, nil
	}
}

// stranger reports whether no request on it has been allowed yet.
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

// withConn stores a request's connection in its context.
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
