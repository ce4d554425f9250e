package kubeletapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/execsvc/serve/kubeletapi/auth"
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

var apiServer = &auth.User{Name: "kube-apiserver", Certificate: true}

func newGuarded(t *testing.T, l Limits) *guarded {
	q := &queue{}
	return &guarded{newGuard(q, l.withDefaults(), newRefusals(slog.New(slog.DiscardHandler))), t, q}
}

// from opens a connection; it returns nil if it is refused.
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
	g := newGuarded(t, Limits{Strangers: 4, StrangersPerPeer: 2, Connections: 3})
	friend, friendConn := g.from("192.0.2.9:1")
	if err := friend.welcome(apiServer); err != nil {
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
	// The place of the closed connection is free for its peer.
	if err := second.Close(); err != nil || second.welcome(apiServer) == nil {
		t.Error("a closed connection is welcome")
	}
	if c, _ := g.from("192.0.2.1:4"); c == nil {
		t.Error("the peer's places aren't free again")
	}
	if err := newcomer.welcome(apiServer); err != nil || newcomerConn.closed {
		t.Errorf("newcomer: %v", err)
	}
}

func TestKnownAreBounded(t *testing.T) {
	g := newGuarded(t, Limits{Connections: 6, WeakConnections: 4})
	prometheus, other := &auth.User{Name: "prometheus"}, &auth.User{Name: "other"}
	var conns []*conn
	for i, tc := range []struct {
		user *auth.User
		want error
	}{
		{prometheus, nil}, {prometheus, nil}, {prometheus, errTooManyOfCaller}, {other, nil}, {other, errTooManyOfCaller},
		{apiServer, nil}, {apiServer, nil}, {apiServer, nil}, {apiServer, errTooMany}, {&auth.User{Name: "a third"}, errTooMany},
	} {
		c, _ := g.from(fmt.Sprint("192.0.2.1:", 1000+i))
		if err := c.welcome(tc.user); !errors.Is(err, tc.want) {
			t.Errorf("connection %d, of %s: %v; want %v", i, tc.user.Name, err, tc.want)
		} else if err == nil {
			conns = append(conns, c)
			if err := c.welcome(tc.user); err != nil {
				t.Errorf("connection %d, next request: %v", i, err)
			}
		}
	}
	_ = conns[0].Close()
	_ = conns[0].Close()
	late, _ := g.from("192.0.2.3:1")
	if err := late.welcome(apiServer); err != nil {
		t.Errorf("after one has closed: %v", err)
	}
	g.closeAll()
	places, _ := g.places.Taken()
	weak, holders := g.weak.Taken()
	if len(g.known) != 0 || g.strangers.Len() != 0 || len(g.peers) != 0 || places != 0 || weak != 0 || holders != 0 {
		t.Errorf("counted after all have closed: %d known, %d strangers, %d peers, %d places, %d weak ones of %d users",
			len(g.known), g.strangers.Len(), len(g.peers), places, weak, holders)
	}
}

// TestCrowdBlocksNoOtherCaller: with any number of connections of users without a certificate, from any addresses,
// the API server gets a connection, also from the network of their pods; and so does another user.
func TestCrowdBlocksNoOtherCaller(t *testing.T) {
	g := newGuarded(t, Limits{})
	for i := range 3000 {
		c, _ := g.from(fmt.Sprintf("[2001:db8::%x]:1000", 2+i%2))
		_ = c.welcome(&auth.User{Name: fmt.Sprint("mallory-", i%2)})
	}
	for _, user := range []*auth.User{apiServer, {Name: "prometheus"}} {
		for _, from := range []string{"192.168.0.1:5000", "[2001:db8::1]:5000", "[2001:db8::2]:5000"} {
			c, _ := g.from(from)
			if err := c.welcome(user); err != nil {
				t.Errorf("%s from %s: %v", user.Name, from, err)
			}
		}
	}
}

// TestAnonymousCount: anonymous callers are counted by their address, also if requests need no authentication.
func TestAnonymousCount(t *testing.T) {
	for what, user := range map[string]*auth.User{"anonymous": {Name: "system:anonymous"}, "on an open port": nil} {
		g := newGuarded(t, Limits{Connections: 8, WeakConnections: 8})
		welcome := func(from string) error {
			c, _ := g.from(from)
			return c.welcome(user)
		}
		for i := range 4 {
			if err := welcome(fmt.Sprint("192.0.2.1:", 1+i)); (err != nil) != (i == 3) {
				t.Errorf("%s: connection %d of one peer: %v; want 3 of 8", what, i, err)
			}
		}
		if err := welcome("192.0.2.2:1"); err != nil {
			t.Errorf("%s: another peer: %v", what, err)
		}
	}
}

// TestStrangersOfOneNetwork: of a network's strangers, the connections of its most crowded address are closed
// first.
func TestStrangersOfOneNetwork(t *testing.T) {
	g := newGuarded(t, Limits{Strangers: 8, StrangersPerPeer: 4})
	_, victim := g.from("[2001:db8::1]:1")
	_, crowd := g.from("[2001:db8::bad]:1")
	for i := range 20 {
		g.from(fmt.Sprintf("[2001:db8::bad]:%d", 2+i))
	}
	if victim.closed || !crowd.closed {
		t.Errorf("closed are the only one of its address: %v, the oldest of the crowd: %v; want the crowd's", victim.closed, crowd.closed)
	}
}

// An unauthenticated connection has a time limit, and an authenticated one a longer limit.
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
	if err := welcomed.welcome(apiServer); err != nil {
		t.Fatal(err)
	}
	stranger, _ := dial()
	defer func() { _ = stranger.Close() }()
	if _, err := stranger.Read(make([]byte, 1)); err == nil {
		t.Error("the stranger reads something")
	}
	// It was opened before the one that is closed now.
	if _, err := welcomed.Write([]byte("x")); err != nil {
		t.Errorf("the known one: %v", err)
	}
}
