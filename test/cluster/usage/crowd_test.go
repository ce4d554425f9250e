package usage

import (
	"crypto/tls"
	"net"
	"sync"
	"testing"
	"time"
)

// crowds: a peer with as many connections as it can open delays no other peer. A peer with the API server's
// address can delay the API server while it opens new connections, but not with its existing ones.
func (a *attackers) crowds(t *testing.T) {
	for _, c := range []struct {
		from, address string
		another       bool
	}{{"another address", a.loopback(), true}, {"the API server's own address", a.address(), false}} {
		comes := newCrowd(t, c.address)
		<-comes.half
		began := time.Now()
		err := a.works(t)
		took := time.Since(began)
		if err != nil && c.another {
			t.Errorf("while connections from %s are opened: %v", c.from, err)
		}
		comes.all.Wait()
		began = time.Now()
		if err := a.works(t); err != nil {
			t.Errorf("while connections from %s are open: %v", c.from, err)
		}
		t.Logf("%d connections from %s: logs and exec took %.1f s while they came (%v), and worked %.1f s after", len(comes.conns), c.from,
			took.Seconds(), err, time.Since(began).Seconds())
		comes.close()
	}
}

// crowdOf are the connections of one peer, of which few send anything.
type crowdOf struct {
	// half is closed when half of them are open.
	half  chan struct{}
	all   sync.WaitGroup
	conns []net.Conn
}

func newCrowd(t *testing.T, address string) *crowdOf {
	c := &crowdOf{half: make(chan struct{})}
	dialer := net.Dialer{Timeout: 5 * time.Second}
	c.all.Go(func() {
		for i := range crowd {
			if i == crowd/2 {
				close(c.half)
			}
			conn, err := dialer.DialContext(t.Context(), "tcp", address)
			if err != nil {
				continue // the node's answer too
			}
			if i%10 == 0 {
				_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
				c.all.Go(func() { _ = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(t.Context()) })
			}
			c.conns = append(c.conns, conn)
		}
	})
	return c
}

func (c *crowdOf) close() {
	for _, conn := range c.conns {
		_ = conn.Close() // most were closed at the other end
	}
}
