package door

import (
	"context"
	"net"
	"sync"
)

// MaxConnections is how many connections are open at once. Two browsers with six each are few of them.
const MaxConnections = 64

// writeBuffer is how many bytes the kernel keeps of what a client doesn't read. By default that can be many MiB.
const writeBuffer = 256 << 10

// Listener bounds the connections. A new one displaces the oldest one that hasn't shown a session's token, so that silent
// connections of other users keep no tab out. If all have, the new one is closed.
type Listener struct {
	net.Listener
	max int

	mu   sync.Mutex
	open []*connection // oldest first
}

// NewListener returns a Listener of at most so many connections.
func NewListener(l net.Listener, most int) *Listener { return &Listener{Listener: l, max: most} }

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetWriteBuffer(writeBuffer) // Otherwise the kernel's bound holds.
		}
		c := &connection{Conn: conn, listener: l}
		displaced, ok := l.admit(c)
		if displaced != nil {
			_ = displaced.Conn.Close()
		}
		if ok {
			return c, nil
		}
		_ = conn.Close()
	}
}

// admit adds a connection, and returns the one that it displaces.
func (l *Listener) admit(c *connection) (displaced *connection, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= l.max {
		i := 0
		for i < len(l.open) && l.open[i].trusted {
			i++
		}
		if i == len(l.open) {
			return nil, false
		}
		displaced = l.open[i]
		l.open = append(l.open[:i], l.open[i+1:]...)
	}
	l.open = append(l.open, c)
	return displaced, true
}

// remove drops a closed connection.
func (l *Listener) remove(c *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, other := range l.open {
		if other == c {
			l.open = append(l.open[:i], l.open[i+1:]...)
			return
		}
	}
}

// connection is one connection of a Listener. trusted is guarded by the listener's lock.
type connection struct {
	net.Conn
	listener *Listener
	trusted  bool
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.listener.remove(c)
	return c.Conn.Close()
}

type connectionKey struct{}

// ConnContext is for http.Server.ConnContext: it lets the Guard find the connection of a request.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, conn)
}

// Trust marks the connection of a request as one that has shown a session's token.
func Trust(ctx context.Context) { trust(ctx) }

func trust(ctx context.Context) {
	c, ok := ctx.Value(connectionKey{}).(*connection)
	if !ok {
		return
	}
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.trusted = true
}
