package http

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/podstream/podstream/internal/porttest"
)

// behaviour answers one request. The connection is then closed. gone is closed when the client has closed it.
type behaviour func(c net.Conn, req *http.Request, gone <-chan struct{})

// server is a server that behaves as the test says.
type server struct {
	t    testing.TB
	addr string

	mu sync.Mutex
	ln net.Listener
	// handshake wraps a connection. If it returns nil, the server sends nothing.
	handshake func(net.Conn) net.Conn
	act       behaviour
	// behaves is closed once the behaviour is set. Requests wait for that.
	behaves  chan struct{}
	known    sync.Once
	requests []*http.Request
	// stalled receives each request that never ends.
	stalled chan struct{}
	conns   map[net.Conn]bool
	wg      sync.WaitGroup
}

func newServer(t testing.TB, act behaviour) *server {
	t.Helper()
	return newServerAt(t, fmt.Sprintf("127.0.0.1:%d", porttest.Reserve(t)), act)
}

func newServerAt(t testing.TB, addr string, act behaviour) *server {
	t.Helper()
	s := &server{t: t, act: act, conns: map[net.Conn]bool{}, handshake: plain, addr: addr, stalled: make(chan struct{}, 1), behaves: make(chan struct{})}
	if act != nil {
		s.behave(act)
	}
	s.open()
	t.Cleanup(s.close)
	return s
}

func plain(c net.Conn) net.Conn { return c }

// open listens, at the same address as before.
func (s *server) open() {
	s.t.Helper()
	ln, err := net.Listen("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ln, s.addr = ln, ln.Addr().String()
	s.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s.wg.Go(func() { s.serve(c) })
		}
	})
}

// close closes all connections and the listener.
func (s *server) close() {
	s.known.Do(func() { close(s.behaves) })
	s.mu.Lock()
	s.ln.Close()
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

func (s *server) serve(c net.Conn) {
	s.mu.Lock()
	s.conns[c] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
		_ = c.Close()
	}()
	<-s.behaves
	s.mu.Lock()
	handshake, act := s.handshake, s.act
	s.mu.Unlock()
	conn := handshake(c)
	if conn == nil || act == nil {
		return
	}
	defer func() { _ = conn.Close() }()
	r := bufio.NewReader(conn)
	req, err := http.ReadRequest(r)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.requests = append(s.requests, req)
	s.mu.Unlock()
	gone := make(chan struct{})
	s.wg.Go(func() {
		defer close(gone)
		// The client sends nothing more, so the read ends when it disconnects.
		_, _ = r.ReadByte()
	})
	act(conn, req, gone)
}

// behave sets the server's answers from now on.
func (s *server) behave(act behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.act = act
	s.known.Do(func() { close(s.behaves) })
}

func (s *server) shake(handshake func(net.Conn) net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handshake = handshake
	s.known.Do(func() { close(s.behaves) })
}

// last returns the last request.
func (s *server) last() *http.Request {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) == 0 {
		s.t.Fatal("there was no request")
	}
	return s.requests[len(s.requests)-1]
}

// raw writes a text.
func raw(text string) behaviour {
	return func(c net.Conn, _ *http.Request, _ <-chan struct{}) { _, _ = c.Write([]byte(text)) }
}

// answering returns an answer with a body, and its length.
func answering(status int, body string, headers ...string) behaviour {
	return raw(head(status, append(headers, fmt.Sprintf("Content-Length: %d", len(body)))...) + body)
}

func ok(body string, headers ...string) behaviour { return answering(200, body, headers...) }

func head(status int, headers ...string) string {
	return fmt.Sprintf("HTTP/1.1 %d %s\r\n%s\r\n\r\n", status, http.StatusText(status), strings.Join(append(headers, "Connection: close"), "\r\n"))
}

func gzipped(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(text))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
