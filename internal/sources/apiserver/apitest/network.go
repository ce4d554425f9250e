package apitest

import (
	"net"
	"sync"
	"time"
)

// network is the connections of a server, and their faults.
type network struct {
	mu          sync.Mutex
	connections map[*faultConn]struct{}
	// silent is nil, or closed when the silence ends.
	silent chan struct{}
	size   int
	pause  time.Duration
}

func (n *network) drop() {
	n.mu.Lock()
	open := n.connections
	n.connections = nil
	n.mu.Unlock()
	for c := range open {
		_ = c.Close()
	}
}

func (n *network) silence(on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case on && n.silent == nil:
		n.silent = make(chan struct{})
	case !on && n.silent != nil:
		close(n.silent)
		n.silent = nil
	}
}

func (n *network) mute() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.connections {
		c.mute()
	}
}

func (n *network) slow(size int, pause time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.size, n.pause = size, pause
}

func (n *network) faults() (silent chan struct{}, size int, pause time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.silent, n.size, n.pause
}

// faultListener makes each connection one of the network.
type faultListener struct {
	net.Listener
	network *network
}

func (l *faultListener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &faultConn{Conn: inner, network: l.network, closed: make(chan struct{}), muted: make(chan struct{})}
	l.network.mu.Lock()
	defer l.network.mu.Unlock()
	if l.network.connections == nil {
		l.network.connections = map[*faultConn]struct{}{}
	}
	l.network.connections[c] = struct{}{}
	return c, nil
}

// faultConn is a connection with the faults of its network.
type faultConn struct {
	net.Conn
	network *network
	once    sync.Once
	closed  chan struct{}
	// muted is closed once nothing is transferred any more.
	muting sync.Once
	muted  chan struct{}
}

func (c *faultConn) mute() { c.muting.Do(func() { close(c.muted) }) }

func (c *faultConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.heard() {
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *faultConn) Write(p []byte) (int, error) {
	written := 0
	for {
		if !c.heard() {
			return written, net.ErrClosed
		}
		_, size, pause := c.network.faults()
		part := p[written:]
		if size > 0 && len(part) > size {
			part = part[:size]
		}
		n, err := c.Conn.Write(part)
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
		time.Sleep(pause)
	}
}

// heard waits for the silence to end. It returns an error if the connection is closed before.
func (c *faultConn) heard() bool {
	for {
		select {
		case <-c.muted:
			<-c.closed
			return false
		default:
		}
		silent, _, _ := c.network.faults()
		if silent == nil {
			return true
		}
		select {
		case <-silent:
		case <-c.closed:
			return false
		}
	}
}

func (c *faultConn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.network.mu.Lock()
		delete(c.network.connections, c)
		c.network.mu.Unlock()
	})
	return c.Conn.Close()
}
