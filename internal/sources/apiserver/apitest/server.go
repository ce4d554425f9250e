package apitest

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/certtest"
	"github.com/podstream/podstream/internal/porttest"
)

// Config configures a Server.
type Config struct {
	// CA makes the Server use TLS, with a certificate that it issues, and request certificates of clients. Nil: plain
	// HTTP.
	CA *certtest.CA
}

// Server is one API server. Make it with New.
type Server struct {
	t   testing.TB
	cfg Config
	tls *tls.Config
	// address is where it listens after each start.
	address string
	network network

	mu sync.Mutex
	// changed is closed, and replaced, with each change that Await may wait for.
	changed chan struct{}
	http    *http.Server
	served  sync.WaitGroup

	state
	watchList WatchListMode
	admitted  map[string]bool
	answer    func(Request) *Reply
	watches   map[*watch]struct{}
	log       []Request
	// held are the events that HoldEvents holds. Nil: they aren't held.
	held map[*watch][]frame
	// minor is the minor version of Kubernetes 1 that it shows.
	minor int
}

// New starts a server on a free port of loopback, and closes it when the test ends.
func New(t testing.TB, cfg Config) *Server {
	t.Helper()
	s := &Server{t: t, cfg: cfg, changed: make(chan struct{}), state: newState(), watches: map[*watch]struct{}{}, minor: 37}
	if cfg.CA != nil {
		s.tls = serverTLS(t, cfg.CA)
	}
	s.seed()
	s.address = fmt.Sprintf("127.0.0.1:%d", porttest.Reserve(t)) // also while it is stopped
	s.Start()
	t.Cleanup(s.Stop)
	return s
}

func serverTLS(t testing.TB, ca *certtest.CA) *tls.Config {
	t.Helper()
	pair, err := tls.X509KeyPair(ca.Issue(certtest.Request{CommonName: "apiserver", Server: true}))
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(ca.PEM)
	return &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair},
		ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: clients,
	}
}

// Start listens, at the same address each time. The objects are kept.
func (s *Server) Start() {
	s.t.Helper()
	listener, err := net.Listen("tcp", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.address = listener.Addr().String()
	server := &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		ErrorLog:          log.New(io.Discard, "", 0),
		ReadHeaderTimeout: time.Minute,
		TLSConfig:         s.tls.Clone(),
	}
	s.mu.Lock()
	s.http = server
	s.mu.Unlock()
	listener = &faultListener{Listener: listener, network: &s.network}
	// Serve returns that the server was closed, which Stop does.
	s.served.Go(func() {
		if s.tls != nil {
			_ = server.ServeTLS(listener, "", "")
			return
		}
		_ = server.Serve(listener)
	})
}

// Stop ends all connections and refuses further ones, until Start. It returns when no request is being served.
func (s *Server) Stop() {
	s.mu.Lock()
	server := s.http
	s.http = nil
	s.mu.Unlock()
	if server == nil {
		return
	}
	s.network.drop()
	if err := server.Close(); err != nil {
		s.t.Logf("close the API server: %v", err)
	}
	s.network.drop()
	s.served.Wait()
}

// URL is the server's URL.
func (s *Server) URL() string {
	if s.tls != nil {
		return "https://" + s.address
	}
	return "http://" + s.address
}

// notify wakes all calls of Await. The caller holds the lock.
func (s *Server) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}
