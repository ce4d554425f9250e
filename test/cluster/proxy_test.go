package cluster

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

// proxy passes connections on to the API server until it is cut: then it accepts none, and those that are open are closed.
type proxy struct {
	listener net.Listener
	mu       sync.Mutex
	isCut    bool
	open     map[net.Conn]bool
	handlers sync.WaitGroup
}

func newProxy(t *testing.T) *proxy {
	t.Helper()
	p := &proxy{listener: rig.Get(net.Listen("tcp", net.JoinHostPort(control.Loopback, "0")))(t), open: map[net.Conn]bool{}}
	p.handlers.Go(func() {
		for {
			conn, err := p.listener.Accept()
			if err != nil {
				return
			}
			p.handlers.Go(func() { p.pass(conn) })
		}
	})
	t.Cleanup(func() {
		_ = p.listener.Close()
		p.cut()
		p.handlers.Wait()
	})
	return p
}

func (p *proxy) url() string { return "https://" + p.listener.Addr().String() }

func (p *proxy) pass(conn net.Conn) {
	defer conn.Close()
	server, err := net.Dial("tcp", strings.TrimPrefix(plane.URL, "https://"))
	if err != nil {
		return
	}
	defer server.Close()
	p.mu.Lock()
	if p.isCut {
		p.mu.Unlock()
		return
	}
	p.open[conn] = true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.open, conn)
		p.mu.Unlock()
	}()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(conn, server)
		_ = conn.Close()
	})
	_, _ = io.Copy(server, conn)
	_ = server.Close()
	back.Wait()
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isCut = true
	for conn := range p.open {
		_ = conn.Close()
	}
}

func (p *proxy) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isCut = false
}
