package grpcserver

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/podstream/podstream/internal/peernet"
	"github.com/podstream/podstream/internal/rotation"
)

const (
	// maxHandshakeWait is the longest expected wait with which a handshake is begun. A client gives up after 5 s: what
	// would take longer is refused at once, so that no processor works for a client that has left.
	maxHandshakeWait = 4 * time.Second
	// begunFirst is how many turns handshakes under way get for each one that begins, while both wait.
	begunFirst = 3
	// firstCost is the expected cost of a handshake before one was measured.
	firstCost = time.Millisecond
	// maxHandshakeBytes bounds what a peer sends in a handshake. A chain of four certificates has about 6 KiB;
	// crypto/tls would parse 256 KiB of them.
	maxHandshakeBytes = 32 << 10
)

var (
	errHandshakeQueue = errors.New("too many handshakes are under way; connect to another one, or again later")
	errHandshakeBytes = fmt.Errorf("its TLS handshake has more than %d bytes", maxHandshakeBytes)
)

// turns bounds the TLS handshakes that compute at once: if all of a fleet's ran at the same time, none would end before
// their clients give up. A handshake holds a turn while it computes, and none while it waits for its peer, so a peer that
// sends nothing holds none. Addresses have their turns in rotation; see turnKey.
type turns struct {
	most int

	mu sync.Mutex
	// used counts the turns that are held.
	used int
	// begun are the handshakes under way that wait for a turn, and others those that wait for their first one.
	begun, others rotation.Queue
	// streak counts the turns of begun ones in a row.
	streak int
	// cost is the mean time for which a handshake holds turns.
	cost time.Duration
}

func newTurns(most int) *turns { return &turns{most: most, cost: firstCost} }

// expected returns how long a new handshake of the address would wait. The caller holds mu.
func (t *turns) expected(address string) time.Duration {
	return time.Duration(t.others.Ahead(address)) * t.cost / time.Duration(t.most)
}

// acquire waits for a turn. It returns errHandshakeQueue at once if a first turn would come too late, and otherwise
// after limit, and net.ErrClosed once closed is closed.
func (t *turns) acquire(address string, first bool, limit time.Duration, closed <-chan struct{}) error {
	t.mu.Lock()
	if t.used < t.most {
		t.used++
		t.mu.Unlock()
		return nil
	}
	queue := &t.begun
	if first {
		queue = &t.others
		if wait := t.expected(address); wait > maxHandshakeWait {
			t.mu.Unlock()
			return fmt.Errorf("%w: it would wait for %v", errHandshakeQueue, wait.Round(time.Millisecond))
		}
	}
	served := queue.Add(address)
	t.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	err := errHandshakeQueue
	select {
	case <-served:
		return nil
	case <-closed:
		err = net.ErrClosed
	case <-timer.C:
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !queue.Remove(address, served) {
		t.next()
	}
	return err
}

// turnKey returns the key under which a peer's handshakes have their turns: see peernet.Of.
func turnKey(peer string) string {
	address, err := netip.ParseAddr(peer)
	if err != nil {
		return peer
	}
	return peernet.Of(address)
}

// release returns a turn.
func (t *turns) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next()
}

// next hands a turn to a handshake that waits, or frees it. The caller holds mu.
func (t *turns) next() {
	switch {
	case t.streak < begunFirst && t.begun.Serve():
		t.streak++
	case t.others.Serve():
		t.streak = 0
	case t.begun.Serve():
	default:
		t.used--
	}
}

// measured takes in the cost of a handshake that succeeded.
func (t *turns) measured(cost time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cost += (cost - t.cost) / 16
}

// turn is the part of one handshake. Only the goroutine of the handshake uses it.
type turn struct {
	turns   *turns
	address string
	limit   time.Duration
	held    bool
	// received is the number of bytes that were read.
	received int
	// since is when the turn was acquired; cost is for how long turns were held, and waited how long it waited for them.
	since        time.Time
	cost, waited time.Duration
}

// read reads from the connection without a turn, and then waits for one.
func (t *turn) read(c *conn, b []byte) (int, error) {
	t.release()
	n, err := c.Conn.Read(b)
	if err != nil {
		return n, err
	}
	if t.received += n; t.received > maxHandshakeBytes {
		return n, errHandshakeBytes
	}
	began := time.Now()
	if err := t.turns.acquire(t.address, t.cost == 0, t.limit-t.waited, c.closed); err != nil {
		return n, err
	}
	t.held, t.since = true, time.Now()
	t.waited += t.since.Sub(began)
	if c.deadline.IsZero() {
		return n, nil
	}
	// The time limit is the peer's: what it waited here doesn't count.
	return n, c.Conn.SetDeadline(c.deadline.Add(t.waited))
}

func (t *turn) release() {
	if !t.held {
		return
	}
	t.held = false
	t.cost += max(time.Since(t.since), 1)
	t.turns.release()
}

// inTurn runs a handshake on the connection, in turns if it is over TCP.
func (g *guard) inTurn(c *conn, handshake func() error) error {
	if c.listener.local() {
		return handshake()
	}
	t := &turn{turns: g.turns, address: turnKey(c.peer), limit: g.limits.HandshakeTimeout}
	c.turn = t
	err := handshake()
	t.release()
	c.turn = nil
	if err == nil {
		g.turns.measured(t.cost)
	}
	return err
}

// Read reads in turns during a handshake.
func (c *conn) Read(b []byte) (int, error) {
	if c.turn != nil {
		return c.turn.read(c, b)
	}
	return c.Conn.Read(b)
}

var _ net.Conn = (*conn)(nil)
