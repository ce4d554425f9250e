package grpcserver

import (
	"container/list"
	"context"
	"errors"
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
	// recheckInterval is the interval at which the access files are read and the connections rechecked.
	recheckInterval = time.Second
	// maxCallsWithoutRole bounds the calls under way on a connection of a caller without a role: one health check at
	// a time is usual.
	maxCallsWithoutRole = 4
	// maxDenials is how many calls of one connection are denied before it is closed.
	maxDenials = 100
)

// guard counts the connections, and keeps the established ones with their callers.
type guard struct {
	access   *access.Access
	limits   Limits
	clock    clock.WithTicker
	refusals *refusals
	log      *slog.Logger
	turns    *turns

	mu sync.Mutex
	// peers counts the connections of each uid or IP address, and shares those with a known identity.
	peers  map[string]int
	shares *shares
	// strangers counts the connections of local users without a role.
	strangers int
	open      map[*conn]struct{}
	known     map[*access.AuthInfo]*conn
	// pending are the connections in their handshake, the oldest first.
	pending map[pendingKey]*list.List
}

func newGuard(a *access.Access, l Limits, c clock.WithTicker, r *refusals, log *slog.Logger) *guard {
	return &guard{
		access: a, limits: l, clock: c, refusals: r, log: log,
		peers: map[string]int{}, shares: newShares(l.MaxConnectionsPerPeer), open: map[*conn]struct{}{}, known: map[*access.AuthInfo]*conn{},
		pending: map[pendingKey]*list.List{}, turns: newTurns(l.MaxHandshakes),
	}
}

// listener closes connections over the limits when it accepts them, before anything is read from them.
type listener struct {
	net.Listener
	guard *guard
	// guard.mu protects both. weak counts the connections whose callers are known to be neither consumers nor
	// operators.
	count, weak int
	closed      bool
}

func (g *guard) listener(l net.Listener) *listener { return &listener{Listener: l, guard: g} }

// local reports whether the listener is on a Unix socket, where the kernel reports the caller before anything is
// read.
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

// Close closes the listener, and the connections that are in their handshake: gRPC's graceful stop would wait for
// them before it informs the others.
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

// admit counts the connection, or returns why it is refused.
func (g *guard) admit(l *listener, raw net.Conn) (*conn, error) {
	who, err := g.access.Arrive(raw)
	if err != nil {
		g.refusals.add(handshake, "unknown", err)
		return nil, err
	}
	c := &conn{Conn: raw, listener: l, peer: who.Peer, owner: who.Owner, stranger: who.Stranger}
	if !l.local() {
		c.closed = make(chan struct{})
	}
	displaced, why, err := g.count(c)
	if displaced != nil {
		g.refusals.add(why, displaced.peer, errDisplaced)
		_ = displaced.Close()
	}
	if err == nil {
		c.setUserTimeout()
		return c, nil
	}
	if why != "" {
		g.refusals.add(why, c.peer, err)
	}
	return nil, err
}

// left returns the number of connections.
func (g *guard) left() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.open)
}

// find returns the connection, or nil if it has ended.
func (g *guard) find(info *access.AuthInfo) *conn {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.known[info]
}

// denied counts a denied call. After maxDenials the connection is closed: gRPC keeps the deadline of each denied call
// until it has passed or the connection ends.
func (g *guard) denied(info *access.AuthInfo) {
	if c := g.find(info); c != nil && c.denials.Add(1) >= maxDenials {
		_ = c.Close()
	}
}

// run reads the access files at each interval until ctx ends, and closes connections that fail the recheck. Their
// clients reconnect with their new rights, and resume by their cursors.
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
	// up is set once the handshake is complete.
	up      atomic.Bool
	denials atomic.Int32
	// turn is set during a handshake over TCP, and deadline is the last one that gRPC has set. Only the goroutine of the
	// handshake uses both until it ends.
	turn     *turn
	deadline time.Time
	// closed is closed when a connection over TCP is: its handshake then doesn't wait for a turn.
	closed chan struct{}
	// calls counts the calls under way of a caller without a role.
	calls   atomic.Int32
	closing sync.Once
	ready   readiness
	// info is the caller, nil until it is known. guard.mu protects it, as well as the holder that the connection
	// counts for, and its places in guard.pending.
	info    *access.AuthInfo
	holder  holder
	pending [2]*list.Element
}

// SetDeadline also detects that the connection is established: gRPC clears the deadline when the handshake is done.
func (c *conn) SetDeadline(t time.Time) error {
	if c.deadline = t; t.IsZero() {
		c.up.Store(true)
	}
	return c.Conn.SetDeadline(t)
}

func (c *conn) Close() error {
	c.closing.Do(func() {
		if c.closed != nil {
			close(c.closed)
		}
		c.listener.guard.remove(c)
	})
	return c.Conn.Close()
}

// SyscallConn gives access the socket, for the kernel's credentials.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	if s, ok := c.Conn.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// setUserTimeout makes the kernel close a dead TCP connection after keepaliveTimeout: gRPC does it only for package
// net's connections. It fails only on a connection that is closed already.
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
