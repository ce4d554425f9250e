package access

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/podstream/podstream/internal/certtest"
)

// handshake accepts one connection and returns the server's AuthInfo.
func handshake(t *testing.T, a *Access, l net.Listener) (*AuthInfo, error) {
	t.Helper()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	secured, info, err := a.TransportCredentials().ServerHandshake(conn)
	if err != nil {
		return nil, err
	}
	if secured == nil {
		t.Fatal("the handshake returns no connection")
	}
	return info.(*AuthInfo), nil
}

// TestHandshakeOfUnixSocket: over a real socket the kernel reports the caller.
func TestHandshakeOfUnixSocket(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	info, err := handshake(t, open(t, Config{}, &strings.Builder{}), l)
	if err != nil {
		t.Fatalf("the handshake: %v; want it to succeed", err)
	}
	if info.Unix == nil || info.Unix.Uid != uint32(os.Geteuid()) || info.Unix.Pid != int32(os.Getpid()) || info.AuthType() != "unix" { //nolint:gosec // Ids are 32 bits.
		t.Errorf("the caller is %+v, by %s; want this process, by unix", info.Unix, info.AuthType())
	}
	if want := uidIdentity(uint32(os.Geteuid())); info.Peer != want { //nolint:gosec // As above.
		t.Errorf("the peer is %q; want %q", info.Peer, want)
	}
}

// listenTLS returns the access rules of a server whose clients are of ca, and a listener that is closed when the test ends.
func listenTLS(t *testing.T, ca *certtest.CA) (*Access, net.Listener) {
	t.Helper()
	a := open(t, newTLSFiles(t, ca, "clients: [{commonName: node-a, role: consumer}]").config(), &strings.Builder{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return a, l
}

// TestHandshakeOfTLS: over TCP the caller is the client certificate's, for as long as its chain is valid; a client
// without a certificate of the client CA is refused.
func TestHandshakeOfTLS(t *testing.T) {
	ca := certtest.NewCA(t, "ca")
	a, l := listenTLS(t, ca)
	connect := func(cfg *tls.Config) (*AuthInfo, error) {
		done := make(chan struct{})
		defer func() { <-done }()
		cfg.ServerName, cfg.NextProtos = "127.0.0.1", []string{"h2"}
		go func() {
			defer close(done)
			if conn, err := tls.Dial("tcp", l.Addr().String(), cfg); err == nil {
				_, _ = conn.Read(make([]byte, 1))
				conn.Close()
			}
		}()
		return handshake(t, a, l)
	}
	end := time.Now().Add(time.Hour).Truncate(time.Second)
	info, err := connect(ca.Client(ca, certtest.Request{CommonName: "node-a", NotAfter: end}))
	if err != nil {
		t.Fatalf("the handshake: %v; want it to succeed", err)
	}
	if info.AuthType() != "tls" || info.Peer != "127.0.0.1" || info.SecurityLevel != credentials.PrivacyAndIntegrity {
		t.Errorf("the connection is %s from %s at level %v; want tls from 127.0.0.1, private", info.AuthType(), info.Peer, info.SecurityLevel)
	}
	if len(info.Certificates) == 0 || info.Certificates[0].Subject.CommonName != "node-a" || !info.expires.Equal(end) {
		t.Errorf("the certificates are %v until %v; want node-a's until %v", info.Certificates, info.expires, end)
	}
	if _, err := connect(ca.Client(certtest.NewCA(t, "another"), certtest.Request{CommonName: "node-a"})); err == nil {
		t.Error("a certificate of another CA is accepted")
	}
}

// TestHandshakeOfUnknown: a connection without a known caller fails: over TCP without TLS files, or of a kind without
// kernel credentials.
func TestHandshakeOfUnknown(t *testing.T) {
	a := open(t, Config{}, &strings.Builder{})
	conn := connected(t, "tcp", "127.0.0.1:0")
	if _, _, err := a.TransportCredentials().ServerHandshake(conn); err == nil || !strings.Contains(err.Error(), "no TLS files") {
		t.Errorf("TCP without TLS files: %v; want an error", err)
	}
	tunnel := tunnelConn{conn.(*net.TCPConn)}
	if _, _, err := a.TransportCredentials().ServerHandshake(tunnel); err == nil || !strings.Contains(err.Error(), `the caller of a "tunnel" connection`) {
		t.Errorf("a connection of an unknown kind: %v; want an error", err)
	}
}

// tunnelConn is a TCP connection that presents itself as something else.
type tunnelConn struct{ *net.TCPConn }

func (tunnelConn) LocalAddr() net.Addr { return tunnelAddr{} }

type tunnelAddr struct{}

func (tunnelAddr) Network() string { return "tunnel" }
func (tunnelAddr) String() string  { return "" }
