package simruntime

import (
	"cmp"
	"fmt"
	"net"
	"sync"
)

// trackedListener keeps a list of its connections.
type trackedListener struct {
	net.Listener

	mu     sync.Mutex
	closed bool
	open   map[*trackedConn]bool
}

type trackedConn struct {
	net.Conn
	listener *trackedListener
}

// listenForStreams listens on a free port of the loopback interface.
func listenForStreams() (*trackedListener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for streams: %w", err)
	}
	return &trackedListener{Listener: l, open: map[*trackedConn]bool{}}, nil
}

// Accept implements net.Listener.
func (l *trackedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &trackedConn{conn, l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, cmp.Or(conn.Close(), net.ErrClosed)
	}
	l.open[c] = true
	return c, nil
}

// Close implements net.Conn.
func (c *trackedConn) Close() error {
	c.listener.mu.Lock()
	delete(c.listener.open, c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

func (l *trackedListener) closeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for c := range l.open {
		_ = c.Conn.Close()
	}
}
