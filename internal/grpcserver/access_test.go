package grpcserver_test

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/certtest"
	"github.com/podstream/podstream/internal/grpcserver"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// whoami asks the server for the caller's identity.
func whoami(t *testing.T, c podconfigv1.PodConfigServiceClient, opts ...grpc.CallOption) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	resp, err := c.ListSources(ctx, &podconfigv1.ListSourcesRequest{}, opts...)
	if err != nil {
		return "", err
	}
	return resp.GetSources()[0].GetName() + " " + resp.GetSources()[0].GetLocation(), nil
}

// TestTLS: over TCP, a client without a certificate of the CA gets no connection, and one without a role gets no data.
func TestTLS(t *testing.T) {
	files := newTLSDir(t, `
clients:
- {commonName: web, role: consumer}
- {commonName: ops, role: inspector}
`)
	g := guard(t, files.access(nil), grpcserver.Limits{}, nil)
	other := certtest.NewCA(t, "other")
	old := files.ca.Client(files.ca, certtest.Request{CommonName: "web"})
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	for _, tc := range []struct {
		name   string
		client *tls.Config
		want   string // who it is, or what the error says
		code   codes.Code
		getPod codes.Code
	}{
		{"a consumer", files.ca.Client(files.ca, certtest.Request{CommonName: "web"}), "web consumer", codes.OK, codes.OK},
		{"an inspector", files.ca.Client(files.ca, certtest.Request{CommonName: "ops"}), "ops inspector", codes.OK, codes.PermissionDenied},
		{"no role", files.ca.Client(files.ca, certtest.Request{CommonName: "x"}), "no role for CN=x; the access file", codes.PermissionDenied, codes.PermissionDenied},
		{"no certificate", files.ca.Client(nil, certtest.Request{}), "", codes.Unavailable, codes.Unavailable},
		{"an expired certificate", files.ca.Client(files.ca, certtest.Request{CommonName: "web", NotAfter: time.Now().Add(-time.Minute)}), "", codes.Unavailable, codes.Unavailable},
		{"another CA's certificate", files.ca.Client(other, certtest.Request{CommonName: "web"}), "", codes.Unavailable, codes.Unavailable},
		{"a server's certificate", files.ca.Client(files.ca, certtest.Request{CommonName: "web", Server: true}), "", codes.Unavailable, codes.Unavailable},
		{"TLS 1.1", old, "", codes.Unavailable, codes.Unavailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := g.refused("handshake")
			client := g.remote(tc.client)
			who, err := whoami(t, client)
			if status.Code(err) != tc.code || !strings.Contains(who+status.Convert(err).Message(), tc.want) {
				t.Errorf("it is %q, %v; want %q, %s", who, err, tc.want, tc.code)
			}
			if _, err := client.GetPod(t.Context(), &podconfigv1.GetPodRequest{}); status.Code(err) != tc.getPod {
				t.Errorf("a call for consumers: %v; want %s", err, tc.getPod)
			}
			if tc.code == codes.Unavailable {
				// A TLS 1.3 client takes the handshake for done before the server has seen the certificate.
				until(t, "the handshake is counted as refused", func() bool { return g.refused("handshake") > before })
			} else if got := g.refused("handshake"); got != before {
				t.Errorf("%d handshakes are counted as refused; want none", got-before)
			}
		})
	}
	if g.refused("access") != 3 {
		t.Errorf("%d calls are counted as denied; want 3", g.refused("access"))
	}
	for _, want := range []string{"no role for CN=x", "certificate"} {
		if !strings.Contains(g.log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, g.log)
		}
	}
}

// TestNotTLS: a connection that doesn't speak TLS is closed, a silent one after a while; others are not affected.
func TestNotTLS(t *testing.T) {
	files := newTLSDir(t, "clients:\n- {commonName: web, role: consumer}\n")
	g := guard(t, files.access(nil), grpcserver.Limits{HandshakeTimeout: 3 * time.Second}, nil)
	web := g.remote(files.ca.Client(files.ca, certtest.Request{CommonName: "web"}))
	if _, err := whoami(t, web); err != nil {
		t.Fatal(err)
	}
	plain := podconfigv1.NewPodConfigServiceClient(g.dial("passthrough:///"+g.tcp, insecure.NewCredentials()))
	if who, err := whoami(t, plain); status.Code(err) != codes.Unavailable {
		t.Errorf("plaintext gRPC on the TLS port: %q, %v; want UNAVAILABLE", who, err)
	}
	for name, text := range map[string]string{"garbage": strings.Repeat("\x00garbage", 1000), "HTTP": "GET / HTTP/1.1\r\nHost: x\r\n\r\n"} {
		conn := g.raw("tcp", g.tcp)
		if _, err := conn.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		closed(t, "a connection of "+name, conn)
	}
	onTCP, onSocket, half := g.raw("tcp", g.tcp), g.raw("unix", g.unix), g.raw("tcp", g.tcp)
	if _, err := half.Write([]byte{22, 3, 1, 2}); err != nil {
		t.Fatal(err)
	}
	silent, err := tls.Dial("tcp", g.tcp, files.ca.Client(files.ca, certtest.Request{CommonName: "web"}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	_ = silent.SetDeadline(time.Now().Add(patience))
	for name, conn := range map[string]net.Conn{
		"a silent connection": onTCP, "a silent connection to the socket": onSocket, "a connection with half a greeting": half,
		"a connection that is silent after the handshake": silent,
	} {
		closed(t, name, conn)
	}
	if _, err := whoami(t, web); err != nil {
		t.Errorf("a call of another client meanwhile: %v; want it answered", err)
	}
	until(t, "only web's connection is left", func() bool { return g.server.Connections()["127.0.0.1"] == 1 })
}

// TestDeniedConnectionEnds: after too many denied calls the connection is closed.
func TestDeniedConnectionEnds(t *testing.T) {
	files := newTLSDir(t, "clients: []\n")
	g := guard(t, files.access(nil), grpcserver.Limits{}, nil)
	var dials atomic.Int32
	conn := g.dial("passthrough:///"+g.tcp, credentials.NewTLS(files.ca.Client(files.ca, certtest.Request{CommonName: "x"})),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			dials.Add(1)
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		}))
	for i := range 150 {
		// A method that doesn't exist is denied as any.
		err := conn.Invoke(t.Context(), "/no.Such/Method", &podconfigv1.GetPodRequest{}, &podconfigv1.GetPodResponse{})
		if code := status.Code(err); code != codes.PermissionDenied && code != codes.Unavailable {
			t.Fatalf("call %d: %v; want it denied", i, err)
		}
	}
	if got := dials.Load(); got != 2 {
		t.Errorf("150 denied calls took %d connections; want 2, the first of them closed after 100", got)
	}
	if n := strings.Count(g.log.String(), "no role for CN=x"); n != 1 {
		t.Errorf("the log tells %d times of the denied calls; want once a minute:\n%s", n, g.log)
	}
}

// TestRoleChanges: a changed access file applies at once to new calls. A connection whose rights have changed is
// closed, so that no stream keeps the former ones; the others stay.
func TestRoleChanges(t *testing.T) {
	files := newTLSDir(t, "clients:\n- {commonName: a, role: consumer}\n- {commonName: b, role: consumer}\n")
	clk := clocktesting.NewFakeClock(time.Now())
	g := guard(t, files.access(clk), grpcserver.Limits{}, clk)
	a := g.remote(files.ca.Client(files.ca, certtest.Request{CommonName: "a"}))
	b := g.remote(files.ca.Client(files.ca, certtest.Request{CommonName: "b"}))
	streamA, streamB := watch(t, a), watch(t, b)
	defer g.hurry()()

	files.write("access", []byte("clients:\n- {commonName: a, role: cons")) // Half-written.
	seen := clk.Now()
	until(t, "the half-written file was read several times", func() bool { return clk.Since(seen) > 10*time.Second })
	files.write("access", []byte("clients:\n- {commonName: a, role: inspector}\n- {commonName: b, role: consumer}\n"))
	if _, err := streamA.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream of a caller whose role has changed ends with %v; want UNAVAILABLE", err)
	}
	if who, err := whoami(t, a, grpc.WaitForReady(true)); who != "a inspector" {
		t.Errorf("the caller comes back as %q, %v; want an inspector", who, err)
	}
	files.write("access", []byte("clients:\n- {commonName: b, role: consumer}\n"))
	until(t, "a has no role", func() bool {
		_, err := whoami(t, a, grpc.WaitForReady(true))
		return status.Code(err) == codes.PermissionDenied
	})
	ended := make(chan error, 1)
	go func() {
		_, err := streamB.Recv()
		ended <- err
	}()
	if who, err := whoami(t, b); who != "b consumer" {
		t.Errorf("the other caller is %q, %v; want a consumer as before", who, err)
	}
	select {
	case err := <-ended:
		t.Errorf("the other caller's stream has ended with %v; want it to go on", err)
	default:
	}
	g.stop()
	<-ended
}

// TestCertificatesChange: the server's certificate and the clients' CAs are read again; connections whose CA is gone
// or whose certificate expires are closed.
func TestCertificatesChange(t *testing.T) {
	files := newTLSDir(t, "clients:\n- {commonName: a, role: consumer}\n- {commonName: brief, role: consumer}\n")
	clk := clocktesting.NewFakeClock(time.Now())
	g := guard(t, files.access(clk), grpcserver.Limits{}, clk)
	oldCA, newCA := files.ca, certtest.NewCA(t, "new")
	oldA := oldCA.Client(oldCA, certtest.Request{CommonName: "a"})
	stream := watch(t, g.remote(oldA))
	brief := watch(t, g.remote(oldCA.Client(oldCA, certtest.Request{CommonName: "brief", NotAfter: clk.Now().Add(30 * time.Second)})))
	defer g.hurry()()

	// The certificate first, without its key: connections go on with what fits together.
	cert, key := newCA.Issue(certtest.Request{Server: true})
	files.write("cert", cert)
	if _, err := brief.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream of a certificate that expires ends with %v; want UNAVAILABLE", err)
	}
	if who, err := whoami(t, g.remote(oldA)); who != "a consumer" {
		t.Errorf("a new connection while the new key is missing: %q, %v; want it as before", who, err)
	}
	files.write("key", key)
	newA := newCA.Client(oldCA, certtest.Request{CommonName: "a"})
	until(t, "the new certificate is shown", func() bool {
		_, err := whoami(t, g.remote(newA))
		return err == nil
	})
	// The old connections have lived through all that, until their CA goes.
	files.write("ca", newCA.PEM)
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream of a client whose CA is gone ends with %v; want UNAVAILABLE", err)
	}
	if who, err := whoami(t, g.remote(newA)); status.Code(err) != codes.Unavailable {
		t.Errorf("a new connection with the old CA's certificate: %q, %v; want it refused", who, err)
	}
	if who, err := whoami(t, g.remote(newCA.Client(newCA, certtest.Request{CommonName: "a"}))); who != "a consumer" {
		t.Errorf("a new connection with the new CA's certificate: %q, %v; want a consumer", who, err)
	}
}

// watch opens a stream and takes its first message.
func watch(t *testing.T, c podconfigv1.PodConfigServiceClient) grpc.ServerStreamingClient[podconfigv1.WatchPodUpdatesResponse] {
	t.Helper()
	stream, err := c.WatchPodUpdates(t.Context(), &podconfigv1.WatchPodUpdatesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatalf("the stream's first message: %v; want one", err)
	}
	return stream
}
