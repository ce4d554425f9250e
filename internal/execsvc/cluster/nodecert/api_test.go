package nodecert

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/certtest"
)

// decision is the decision on a certificate signing request.
type decision int

const (
	approve decision = iota
	leave
	deny
)

// api is the part of an API server that handles certificates: it signs requests, and returns each caller's
// name. Its network is in memory, so that it works in the bubbles of synctest.
type api struct {
	t      *testing.T
	ca     *certtest.CA
	server *http.Server

	mu sync.Mutex
	// decision applies to new requests. life is how long certificates are valid, and skew how much later than
	// now their validity starts.
	decision   decision
	life, skew time.Duration
	// away refuses connections, hangs leaves requests without an answer, and loses drops the answer to each new
	// signing request.
	away, hangs, loses bool
	csrs               map[string]*certificatesv1.CertificateSigningRequest
	changed            chan struct{}
	version            int
	// created counts requests for certificates, users are the callers of all requests, serial is the last
	// client certificate.
	created int
	users   []string
	serial  *big.Int
	conns   chan net.Conn
	open    map[net.Conn]bool
}

// apiHost is the address of every api.
const apiHost = "api.test"

// token is a valid bootstrap token.
const token = "bootstrap-token"

func newAPI(t *testing.T) *api {
	t.Helper()
	a := &api{
		t: t, ca: certtest.NewCA(t, "ca"), life: time.Hour, csrs: map[string]*certificatesv1.CertificateSigningRequest{}, changed: make(chan struct{}),
		conns: make(chan net.Conn), open: map[net.Conn]bool{},
	}
	pair := a.ca.Pair(x509.Certificate{
		DNSNames: []string{apiHost}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(10, 0, 0),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	mux := http.NewServeMux()
	const csrs = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	mux.HandleFunc("POST "+csrs, a.create)
	mux.HandleFunc("GET "+csrs, a.list)
	mux.HandleFunc("GET "+csrs+"/{name}", a.get)
	mux.HandleFunc("GET /api/v1/nodes/{name}", a.whoAmI)
	a.server = &http.Server{
		Handler: a.authenticate(mux), ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: a.ca.Pool(), ClientAuth: tls.VerifyClientCertIfGiven, MinVersion: tls.VersionTLS12},
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := a.server.ServeTLS(listener{a}, "", ""); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("api: %v", err)
		}
	}()
	t.Cleanup(func() {
		_ = a.server.Close()
		a.cut()
		<-served
	})
	return a
}

// dial is a Dial to this api.
func (a *api) dial(ctx context.Context, _, address string) (net.Conn, error) {
	a.mu.Lock()
	away := a.away
	a.mu.Unlock()
	if away || !strings.HasPrefix(address, apiHost+":") {
		return nil, errors.New("connection refused")
	}
	client, server := net.Pipe()
	select {
	case a.conns <- server:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	a.mu.Lock()
	a.open[client] = true
	a.mu.Unlock()
	return client, nil
}

// cut closes all connections.
func (a *api) cut() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for c := range a.open {
		_ = c.Close()
	}
	clear(a.open)
}

// goAway makes the api refuse connections, or accept them again.
func (a *api) goAway(away bool) {
	a.mu.Lock()
	a.away = away
	a.mu.Unlock()
	if away {
		a.cut()
	}
}

// set changes the behaviour of the api.
func (a *api) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

type listener struct{ *api }

func (l listener) Accept() (net.Conn, error) {
	c, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (l listener) Close() error   { close(l.conns); return nil }
func (l listener) Addr() net.Addr { return &net.TCPAddr{} }

// authenticate returns the caller.
func (a *api) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != apiHost+":6443" {
			a.t.Errorf("a request is for the host %s", r.Host)
		}
		user := ""
		a.mu.Lock()
		if len(r.TLS.VerifiedChains) > 0 {
			user, a.serial = r.TLS.PeerCertificates[0].Subject.CommonName, r.TLS.PeerCertificates[0].SerialNumber
		} else if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
			user = bearer
		}
		a.users = append(a.users, user)
		hangs := a.hangs
		a.mu.Unlock()
		if hangs {
			<-r.Context().Done()
			return
		}
		if user == "" {
			answer(w, http.StatusUnauthorized, &metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonUnauthorized, Code: http.StatusUnauthorized})
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, user)))
	})
}

type userKey struct{}

func answer(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object)
}

// whoAmI answers with a Node that has the caller's name.
func (*api) whoAmI(w http.ResponseWriter, r *http.Request) {
	answer(w, http.StatusOK, &v1.Node{
		TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: r.Context().Value(userKey{}).(string)},
	})
}
