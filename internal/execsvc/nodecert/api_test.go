package nodecert

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/keyutil"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key}
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// sign makes what the template says, with a serial number of its own.
func (a *authority) sign(template x509.Certificate, public crypto.PublicKey) []byte {
	template.SerialNumber, _ = rand.Int(rand.Reader, big.NewInt(1<<62))
	der, err := x509.CreateCertificate(rand.Reader, &template, a.cert, public, a.key)
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// pair is a new key with its certificate.
func (a *authority) pair(t *testing.T, template x509.Certificate) (certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if keyPEM, err = keyutil.MarshalPrivateKeyToPEM(key); err != nil {
		t.Fatal(err)
	}
	return a.sign(template, key.Public()), keyPEM
}

// forNode is a client certificate of a node.
func forNode(node string, life time.Duration) x509.Certificate {
	return x509.Certificate{
		Subject: subject(node), NotBefore: time.Now(), NotAfter: time.Now().Add(life), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

// decision is what becomes of a certificate signing request.
type decision int

const (
	approve decision = iota
	leave
	deny
)

// api is an API server as far as certificates go: it signs requests, and says of each caller who he is. Its network has no machine beneath it, so
// that it works in the bubbles of synctest.
type api struct {
	t      *testing.T
	ca     *authority
	server *http.Server

	mu sync.Mutex
	// decision is for the requests that come, life how long certificates are good, skew how much later than now they begin to be.
	decision   decision
	life, skew time.Duration
	// away has connections refused.
	away    bool
	csrs    map[string]*certificatesv1.CertificateSigningRequest
	changed chan struct{}
	version int
	// created counts requests for certificates, users are who made requests of any kind, serial is the last client certificate.
	created int
	users   []string
	serial  *big.Int
	conns   chan net.Conn
	open    map[net.Conn]bool
}

// apiHost is the address of every api.
const apiHost = "api.test"

// token is good for bootstrapping.
const token = "bootstrap-token"

func newAPI(t *testing.T) *api {
	t.Helper()
	a := &api{
		t: t, ca: newAuthority(t), life: time.Hour, csrs: map[string]*certificatesv1.CertificateSigningRequest{}, changed: make(chan struct{}),
		conns: make(chan net.Conn), open: map[net.Conn]bool{},
	}
	certPEM, keyPEM := a.ca.pair(t, x509.Certificate{
		DNSNames: []string{apiHost}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(10, 0, 0),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	const csrs = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	mux.HandleFunc("POST "+csrs, a.create)
	mux.HandleFunc("GET "+csrs, a.list)
	mux.HandleFunc("GET "+csrs+"/{name}", a.get)
	mux.HandleFunc("GET /api/v1/nodes/{name}", a.whoAmI)
	a.server = &http.Server{
		Handler: a.authenticate(mux), ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: a.ca.pool(), ClientAuth: tls.VerifyClientCertIfGiven, MinVersion: tls.VersionTLS12},
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

// cut ends all connections.
func (a *api) cut() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for c := range a.open {
		_ = c.Close()
	}
	clear(a.open)
}

// goAway refuses connections, or takes them again.
func (a *api) goAway(away bool) {
	a.mu.Lock()
	a.away = away
	a.mu.Unlock()
	if away {
		a.cut()
	}
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

// authenticate finds out who calls.
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
		a.mu.Unlock()
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

func (a *api) create(w http.ResponseWriter, r *http.Request) {
	c := &certificatesv1.CertificateSigningRequest{}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		_, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, c)
	}
	if err != nil {
		a.t.Errorf("a request that can't be read: %v", err)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.csrs[c.Name] != nil {
		answer(w, http.StatusConflict, &metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonAlreadyExists, Code: http.StatusConflict})
		return
	}
	c.TypeMeta = metav1.TypeMeta{Kind: "CertificateSigningRequest", APIVersion: "certificates.k8s.io/v1"}
	c.UID, c.Spec.Username = types.UID(c.Name), r.Context().Value(userKey{}).(string)
	a.created++
	answer(w, http.StatusCreated, a.decide(c, a.decision))
}

// decide is called with mu held. Others may be reading the request as it was.
func (a *api) decide(c *certificatesv1.CertificateSigningRequest, d decision) *certificatesv1.CertificateSigningRequest {
	c = c.DeepCopy()
	switch d {
	case approve:
		c.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: v1.ConditionTrue}}
		c.Status.Certificate = a.certificateFor(c)
	case deny:
		c.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
			Type: certificatesv1.CertificateDenied, Status: v1.ConditionTrue, Reason: "Policy", Message: "not in here",
		}}
	case leave:
	}
	a.version++
	c.ResourceVersion = strconv.Itoa(a.version)
	a.csrs[c.Name] = c
	close(a.changed)
	a.changed = make(chan struct{})
	return c
}

// decideAll decides about the requests that are there.
func (a *api) decideAll(d decision) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.csrs {
		if len(c.Status.Conditions) == 0 {
			a.decide(c, d)
		}
	}
}

func (a *api) certificateFor(c *certificatesv1.CertificateSigningRequest) []byte {
	block, _ := pem.Decode(c.Spec.Request)
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil || request.CheckSignature() != nil {
		a.t.Errorf("request %s is no good: %v", c.Name, err)
		return nil
	}
	template := x509.Certificate{
		Subject: request.Subject, NotBefore: time.Now().Add(a.skew), NotAfter: time.Now().Add(a.skew + a.life),
		DNSNames: request.DNSNames, IPAddresses: request.IPAddresses, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	for _, usage := range c.Spec.Usages {
		switch usage {
		case certificatesv1.UsageClientAuth:
			template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
		case certificatesv1.UsageServerAuth:
			template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		default:
		}
	}
	return a.ca.sign(template, request.PublicKey)
}

func (a *api) get(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.csrs[r.PathValue("name")]; c != nil {
		answer(w, http.StatusOK, c)
		return
	}
	answer(w, http.StatusNotFound, &metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
}

// list lists or watches one request.
func (a *api) list(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	if r.URL.Query().Get("watch") != "" {
		a.watch(w, r, name)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	list := &certificatesv1.CertificateSigningRequestList{TypeMeta: metav1.TypeMeta{Kind: "CertificateSigningRequestList", APIVersion: "certificates.k8s.io/v1"}}
	list.ResourceVersion = strconv.Itoa(a.version)
	if c := a.csrs[name]; c != nil {
		list.Items = append(list.Items, *c)
	}
	answer(w, http.StatusOK, list)
}

func (a *api) watch(w http.ResponseWriter, r *http.Request, name string) {
	if r.URL.Query().Get("sendInitialEvents") != "" {
		answer(w, http.StatusUnprocessableEntity, &metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	last := r.URL.Query().Get("resourceVersion")
	for {
		a.mu.Lock()
		c, changed := a.csrs[name], a.changed
		a.mu.Unlock()
		if c != nil && c.ResourceVersion != last {
			last = c.ResourceVersion
			_ = json.NewEncoder(w).Encode(map[string]any{"type": "MODIFIED", "object": c})
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}
