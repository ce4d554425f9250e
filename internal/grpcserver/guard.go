package grpcserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/access"
)

const (
	// recheckInterval is how often the files of access are read, and the connections looked at.
	recheckInterval = time.Second
	// maxCallsWithoutRole are the calls under way on a connection of somebody who has no role: one check of health at a time is
	// usual.
	maxCallsWithoutRole = 4
	// maxDenials is how many calls of one connection are denied before it is closed: who goes on after so many isn't asking.
	maxDenials = 100
)

// guard counts the connections, and knows those that are up by what access found out about them.
type guard struct {
	access   *access.Access
	limits   Limits
	clock    clock.WithTicker
	refusals *refusals
	log      *slog.Logger

	mu    sync.Mutex
	peers map[string]int
	// strangers are the connections of local users without a role.
	strangers int
	open      map[*conn]struct{}
	known     map[*access.AuthInfo]*conn
}

func newGuard(a *access.Access, l Limits, c clock.WithTicker, r *refusals, log *slog.Logger) *guard {
	return &guard{
		access: a, limits: l, clock: c, refusals: r, log: log,
		peers: map[string]int{}, open: map[*conn]struct{}{}, known: map[*access.AuthInfo]*conn{},
	}
}

// listener closes connections over the limits at accept, before anything is read from them.
type listener struct {
	net.Listener
	guard *guard
	// Both are guarded by guard.mu.
	count  int
	closed bool
}

func (g *guard) listener(l net.Listener) *listener { return &listener{Listener: l, guard: g} }

// local: it is on a Unix socket, where the kernel says who calls before anything is read.
func (l *listener) local() bool { return l.Addr().Network() != "tcp" }

// Accept returns the next connection within the limits.
func (l *listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c, err := l.guard.admit(l, raw)
		if err == nil {
			return c, nil
		}
		_ = raw.Close()
		if errors.Is(err, net.ErrClosed) {
			return nil, err
		}
	}
}

// Close closes the listener, and the connections that haven't got through their handshake: gRPC's graceful stop would wait for
// them before it tells the others to go.
func (l *listener) Close() error {
	err := l.Listener.Close()
	var pending []*conn
	l.guard.mu.Lock()
	l.closed = true
	for c := range l.guard.open {
		if c.listener == l && !c.up.Load() {
			pending = append(pending, c)
		}
	}
	l.guard.mu.Unlock()
	for _, c := range pending {
		_ = c.Close()
	}
	return err
}

// admit counts the connection, or says why it is refused.
func (g *guard) admit(l *listener, raw net.Conn) (*conn, error) {
	who, err := g.access.Arrive(raw)
	if err != nil {
		g.refusals.add(handshake, "unknown", err)
		return nil, err
	}
	c := &conn{Conn: raw, listener: l, peer: who.Peer, owner: who.Owner, stranger: who.Stranger}
	why, err := g.count(c)
	if err == nil {
		c.setUserTimeout()
		return c, nil
	}
	if why != "" {
		g.refusals.add(why, c.peer, err)
	}
	return nil, err
}

func (g *guard) count(c *conn) (reason, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	most := g.limits.MaxConnections
	if c.listener.local() && !c.owner {
		most -= g.limits.ReservedConnections
	}
	switch {
	case c.listener.closed:
		return "", net.ErrClosed
	case c.stranger && g.strangers >= g.limits.MaxConnectionsWithoutRole:
		return connectionsWithoutRole, fmt.Errorf("it has no role, and callers without one have %d connections", g.strangers)
	case c.listener.count >= most:
		return connections, fmt.Errorf("the listener has %d connections", c.listener.count)
	case g.peers[c.peer] >= g.limits.MaxConnectionsPerPeer:
		return connectionsPerPeer, fmt.Errorf("the peer has %d connections", g.peers[c.peer])
	}
	c.listener.count++
	if c.stranger {
		g.strangers++
	}
	g.peers[c.peer]++
	g.open[c] = struct{}{}
	return "", nil
}

// forget is called once, when the connection is closed.
func (g *guard) forget(c *conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.open, c)
	delete(g.known, c.info)
	c.listener.count--
	if c.stranger {
		g.strangers--
	}
	if g.peers[c.peer]--; g.peers[c.peer] == 0 {
		delete(g.peers, c.peer)
	}
}

// introduce notes who the connection is. The files may have changed during its handshake, so it is checked after it can be seen
// by recheck.
func (g *guard) introduce(c *conn, info *access.AuthInfo) error {
	g.mu.Lock()
	_, open := g.open[c]
	if open {
		c.info = info
		g.known[info] = c
	}
	g.mu.Unlock()
	if !open {
		return net.ErrClosed
	}
	return g.access.Recheck(info)
}

// left is how many connections there are.
func (g *guard) left() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.open)
}

// find is the connection, or nil if it has ended.
func (g *guard) find(info *access.AuthInfo) *conn {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.known[info]
}

// denied notes that a call was denied. A connection that goes on regardless is closed: besides its tries, gRPC keeps the deadline
// of each denied call until it has passed or the connection ends.
func (g *guard) denied(info *access.AuthInfo) {
	if c := g.find(info); c != nil && c.denials.Add(1) >= maxDenials {
		_ = c.Close()
	}
}

// run reads the files of access again and again until ctx ends, and closes connections that can't stay as they are. Their clients
// come back with what they may see now; their cursors see to it that they miss nothing.
func (g *guard) run(ctx context.Context) {
	if !g.access.Reloads() {
		return
	}
	ticker := g.clock.NewTicker(recheckInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			g.access.Reload()
			g.recheck()
		}
	}
}

func (g *guard) recheck() {
	g.mu.Lock()
	known := make(map[*access.AuthInfo]*conn, len(g.known))
	for info, c := range g.known {
		known[info] = c
	}
	g.mu.Unlock()
	for info, c := range known {
		if err := g.access.Recheck(info); err != nil {
			g.log.Info("closing a connection, for its client to come back", "peer", c.peer, "reason", err)
			_ = c.Close()
		}
	}
}

// conn is a connection that is counted until it is closed.
type conn struct {
	net.Conn
	listener *listener
	peer     string
	// owner and stranger are as in access.Arrival.
	owner, stranger bool
	// up: it got through its handshake.
	up      atomic.Bool
	denials atomic.Int32
	// calls are those under way of a caller without a role.
	calls   atomic.Int32
	closing sync.Once
	ready   readiness
	// info is who it is; guarded by guard.mu.
	info *access.AuthInfo
}

// SetDeadline learns that the connection is up: gRPC lifts the deadline of the handshake when that is done.
func (c *conn) SetDeadline(t time.Time) error {
	if t.IsZero() {
		c.up.Store(true)
	}
	return c.Conn.SetDeadline(t)
}

func (c *conn) Close() error {
	c.closing.Do(func() { c.listener.guard.forget(c) })
	return c.Conn.Close()
}

// SyscallConn shows the socket to access, which asks the kernel about it.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	if s, ok := c.Conn.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// setUserTimeout has the kernel give a dead TCP peer up after keepaliveTimeout: gRPC does it for connections of net alone. A
// connection that can't take it is closed already, which its reader will see.
func (c *conn) setUserTimeout() {
	tcp, ok := c.Conn.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(keepaliveTimeout.Milliseconds()))
	})
}
