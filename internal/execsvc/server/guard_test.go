package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"
)

// fakeConn is a connection of a peer.
type fakeConn struct {
	net.Conn
	from   string
	closed bool
}

func (c *fakeConn) RemoteAddr() net.Addr {
	a, err := net.ResolveTCPAddr("tcp", c.from)
	if err != nil {
		panic(err)
	}
	return a
}
func (c *fakeConn) Close() error { c.closed = true; return nil }

// queue is a listener of fakeConns.
type queue struct {
	net.Listener
	conns []*fakeConn
}

func (q *queue) Accept() (net.Conn, error) {
	if len(q.conns) == 0 {
		return nil, net.ErrClosed
	}
	c := q.conns[0]
	q.conns = q.conns[1:]
	return c, nil
}

type guarded struct {
	*guard
	t     *testing.T
	queue *queue
}

func newGuarded(t *testing.T, l Limits) *guarded {
	q := &queue{}
	return &guarded{newGuard(q, l.withDefaults(), newRefusals(slog.New(slog.DiscardHandler))), t, q}
}

// from is a new connection; nil if it is refused.
func (g *guarded) from(peer string) (*conn, *fakeConn) {
	g.t.Helper()
	fake := &fakeConn{from: peer}
	g.queue.conns = append(g.queue.conns, fake)
	c, err := g.Accept()
	switch {
	case errors.Is(err, net.ErrClosed):
		if !fake.closed {
			g.t.Error("a refused connection stays open")
		}
		return nil, fake
	case err != nil:
		g.t.Fatal(err)
	}
	return c.(*conn), fake
}

func TestStrangersDisplaceStrangersOnly(t *testing.T) {
	g := newGuarded(t, Limits{Strangers: 4, StrangersPerPeer: 2, Connections: 3, ConnectionsPerPeer: 2})
	friend, friendConn := g.from("192.0.2.9:1")
	if err := friend.welcome(); err != nil {
		t.Fatal(err)
	}
	_, first := g.from("192.0.2.1:1")
	_, oldest := g.from("192.0.2.1:2")
	second, secondConn := g.from("192.0.2.1:3")
	if second == nil || !first.closed || oldest.closed || g.strangers.Len() != 2 {
		t.Error("a third stranger of one peer hasn't taken the place of the first")
	}
	g.from("192.0.2.2:1")
	g.from("192.0.2.2:2")
	if oldest.closed {
		t.Error("displaced without need")
	}
	newcomer, newcomerConn := g.from("192.0.2.3:1")
	if newcomer == nil || !oldest.closed || secondConn.closed || friendConn.closed {
		t.Errorf("newcomer %v, oldest closed %v, second closed %v, friend closed %v", newcomer, oldest.closed, secondConn.closed, friendConn.closed)
	}
	if n := g.strangers.Len(); n != 4 {
		t.Errorf("%d strangers; want 4", n)
	}
	if _, ok := g.from("192.0.2.4:1"); ok.closed || !secondConn.closed {
		t.Error("the next one displaced isn't the next oldest")
	}
	// The place of the one that is gone is free for its peer.
	if err := second.Close(); err != nil || second.welcome() == nil {
		t.Error("a closed connection is welcome")
	}
	if c, _ := g.from("192.0.2.1:4"); c == nil {
		t.Error("the peer's places aren't free again")
	}
	if err := newcomer.welcome(); err != nil || newcomerConn.closed {
		t.Errorf("newcomer: %v", err)
	}
}

func TestKnownAreBounded(t *testing.T) {
	g := newGuarded(t, Limits{Connections: 3, ConnectionsPerPeer: 2})
	var conns []*conn
	for i, want := range []error{nil, nil, errTooManyOfPeer} {
		c, _ := g.from(fmt.Sprint("192.0.2.1:", i))
		if c == nil {
			if want == nil {
				t.Fatalf("connection %d is refused", i)
			}
			continue
		}
		if err := c.welcome(); !errors.Is(err, want) {
			t.Errorf("connection %d: %v; want %v", i, err, want)
		}
		if err := c.welcome(); err != nil {
			t.Errorf("connection %d, next request: %v", i, err)
		}
		conns = append(conns, c)
	}
	a, _ := g.from("192.0.2.2:1")
	b, _ := g.from("192.0.2.3:1")
	if err := a.welcome(); err != nil {
		t.Error(err)
	}
	if err := b.welcome(); !errors.Is(err, errTooMany) {
		t.Errorf("one too many: %v", err)
	}
	_ = conns[0].Close()
	_ = conns[0].Close()
	if err := b.welcome(); err != nil {
		t.Errorf("after one has closed: %v", err)
	}
	g.closeAll()
	if len(g.known) != 0 || g.strangers.Len() != 0 || len(g.peers) != 0 {
		t.Errorf("counted after all have closed: %d known, %d strangers, %d peers", len(g.known), g.strangers.Len(), len(g.peers))
	}
}

// A stranger has so much time, and whoever is known has more.
func TestStrangerTimeout(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := newGuard(l, Limits{StrangerTimeout: 2 * time.Second}.withDefaults(), newRefusals(slog.New(slog.DiscardHandler)))
	defer func() { _ = g.Close() }()
	dial := func() (client net.Conn, server *conn) {
		client, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		accepted, err := g.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return client, accepted.(*conn)
	}
	friend, welcomed := dial()
	defer func() { _, _ = friend.Close(), welcomed.Close() }()
	if err := welcomed.welcome(); err != nil {
		t.Fatal(err)
	}
	stranger, _ := dial()
	defer func() { _ = stranger.Close() }()
	if _, err := stranger.Read(make([]byte, 1)); err == nil {
		t.Error("the stranger reads something")
	}
	// It came before the one that is closed now.
	if _, err := welcomed.Write([]byte("x")); err != nil {
		t.Errorf("the known one: %v", err)
	}
}
