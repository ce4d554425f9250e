package grpcserver

import (
	"container/list"
	"errors"
	"fmt"
	"net"

	"github.com/podstream/podstream/internal/access"
)

// errDisplaced is the reason for closing a connection during its handshake.
var errDisplaced = errors.New("a newer connection takes its place, as it is still in its handshake")

// count counts the connection, or returns why it can't be counted. The connection may replace a displaced one, which
// the caller closes; why is then the limit that was reached.
func (g *guard) count(c *conn) (displaced *conn, why reason, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.listener.closed {
		return nil, "", net.ErrClosed
	}
	if why, err = g.full(c); err != nil && !c.listener.local() {
		if displaced = g.oldestPending(c.listener, c.peer, why == connectionsPerPeer); displaced != nil {
			g.uncount(displaced)
			_, err = g.full(c)
		}
	}
	if err != nil {
		return displaced, why, err
	}
	c.listener.count++
	if c.stranger {
		g.strangers++
	}
	g.peers[c.peer]++
	g.open[c] = struct{}{}
	g.await(c)
	return displaced, why, nil
}

// full returns the error of the limit that is reached without the connection.
func (g *guard) full(c *conn) (reason, error) {
	most, mostOfPeer := g.limits.MaxConnections, g.limits.MaxConnectionsPerPeer
	if !c.listener.local() {
		mostOfPeer *= peersPerAddress
	} else if !c.owner {
		most -= g.limits.ReservedConnections
	}
	switch {
	case c.stranger && g.strangers >= g.limits.MaxConnectionsWithoutRole:
		return connectionsWithoutRole, fmt.Errorf("it has no role, and callers without one have %d connections", g.strangers)
	case c.listener.count >= most:
		return connections, fmt.Errorf("the listener has %d connections", c.listener.count)
	case g.peers[c.peer] >= mostOfPeer:
		return connectionsPerPeer, fmt.Errorf("the peer has %d connections", g.peers[c.peer])
	}
	return "", nil
}

// oldestPending returns the oldest connection of the listener that is still in its handshake; with ofPeer, only of
// that peer. It may be nil.
func (g *guard) oldestPending(l *listener, peer string, ofPeer bool) *conn {
	key := pendingKey{l, ""}
	if ofPeer {
		key.peer = peer
	}
	if g.pending[key] == nil {
		return nil
	}
	return g.pending[key].Front().Value.(*conn)
}

// pendingKey identifies the connections in their handshake: of a listener, or of one peer of it.
type pendingKey struct {
	listener *listener
	peer     string
}

func (c *conn) pendingKeys() [2]pendingKey {
	return [2]pendingKey{{c.listener, ""}, {c.listener, c.peer}}
}

// await adds the connection, which is in its handshake, as the newest one.
func (g *guard) await(c *conn) {
	for i, key := range c.pendingKeys() {
		if g.pending[key] == nil {
			g.pending[key] = list.New()
		}
		c.pending[i] = g.pending[key].PushBack(c)
	}
}

// settle is called when the handshake or the connection has ended.
func (g *guard) settle(c *conn) {
	for i, key := range c.pendingKeys() {
		if c.pending[i] == nil {
			continue
		}
		g.pending[key].Remove(c.pending[i])
		c.pending[i] = nil
		if g.pending[key].Len() == 0 {
			delete(g.pending, key)
		}
	}
}

// remove is called once, when the connection is closed.
func (g *guard) remove(c *conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.uncount(c)
}

// uncount does nothing if the connection isn't counted any more.
func (g *guard) uncount(c *conn) {
	if _, open := g.open[c]; !open {
		return
	}
	delete(g.open, c)
	g.settle(c)
	c.listener.count--
	if c.stranger {
		g.strangers--
	}
	if g.peers[c.peer]--; g.peers[c.peer] == 0 {
		delete(g.peers, c.peer)
	}
	if c.info == nil {
		return
	}
	delete(g.known, c.info)
	g.shares.add(c.holder, -1)
	if c.holder.weak {
		c.listener.weak--
	}
}

// introduce records the caller of the connection, or refuses it if its peer has too many connections. The files may
// have changed during its handshake, so it is checked again once recheck can see it.
func (g *guard) introduce(c *conn, info *access.AuthInfo) error {
	if err := g.know(c, info); err != nil {
		return err
	}
	return g.access.Recheck(info)
}

func (g *guard) know(c *conn, info *access.AuthInfo) error {
	peer := holderOf(info.Caller())
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, open := g.open[c]; !open {
		return net.ErrClosed
	}
	if !c.owner {
		if err := g.shares.check(peer, "connections"); err != nil {
			return err
		}
		if most := g.limits.MaxConnections - g.limits.MaxConnections/4; peer.weak && c.listener.weak >= most {
			return fmt.Errorf("callers that are neither consumers nor operators have %d connections", c.listener.weak)
		}
	}
	g.settle(c)
	c.info, c.holder = info, peer
	g.known[info] = c
	g.shares.add(peer, 1)
	if peer.weak {
		c.listener.weak++
	}
	return nil
}
