package grpcserver_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/certtest"
	"github.com/podstream/podstream/internal/grpcserver"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// crowd is a server with a relay and weak certificates behind one address.
type crowd struct {
	*guarded
	files *tlsDir
}

func newCrowd(t *testing.T, limits grpcserver.Limits) *crowd {
	files := newTLSDir(t, `clients:
- {commonName: relay, role: consumer}
- {organization: support, role: inspector}
`)
	return &crowd{guard(t, files.access(nil), limits, nil), files}
}

// certificate is that of the relay, of an inspector, or of a caller without a role.
func (c *crowd) certificate(name string) *tls.Config {
	request := certtest.Request{CommonName: name}
	if name != "relay" && name != "refused" {
		request.Organization = "support"
	}
	return c.files.ca.Client(c.files.ca, request)
}

// streamOf begins a stream that lasts until the test ends.
func streamOf(ctx context.Context, client podconfigv1.PodConfigServiceClient) error {
	stream, err := client.WatchPodUpdates(ctx, &podconfigv1.WatchPodUpdatesRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	return err
}

// TestCallsOfWeakIdentities: identities that are neither consumers nor operators can't take the calls of a relay
// behind their address.
func TestCallsOfWeakIdentities(t *testing.T) {
	c := newCrowd(t, grpcserver.Limits{MaxCallsPerPeer: 8, MaxUnaryCallsPerPeer: 4})
	got := map[string]int{}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		client := c.remote(c.certificate(name))
		for streamOf(t.Context(), client) == nil {
			got[name]++
		}
	}
	if got["a"] != 8 || got["b"] != 8 || got["f"] > 1 {
		t.Errorf("the inspectors have %v calls; want 8 each at first, and few at last", got)
	}
	relay := c.remote(c.certificate("relay"))
	for range 3 {
		if err := streamOf(t.Context(), relay); err != nil {
			t.Errorf("a stream of the relay: %v; want it served", err)
		}
	}
	if _, err := whoami(t, relay); err != nil {
		t.Errorf("a unary call of the relay: %v; want it answered", err)
	}
}

// TestHealthChecksOfRefusedCallers: calls of certificates without a role count together, and not for the relay behind
// their address.
func TestHealthChecksOfRefusedCallers(t *testing.T) {
	c := newCrowd(t, grpcserver.Limits{MaxCallsPerPeer: 4, MaxUnaryCallsPerPeer: 4})
	for range 2 {
		framer := speak(t, c.rawTLS(c.certificate("refused")))
		for id := uint32(1); id < 8; id += 2 {
			begin(t, framer, id, healthv1.Health_Check_FullMethodName)
		}
	}
	until(t, "a call without a role too many is refused", func() bool { return c.refused("calls_per_peer") > 0 })
	relay := c.remote(c.certificate("relay"))
	if err := streamOf(t.Context(), relay); err != nil {
		t.Errorf("a stream of the relay: %v; want it served", err)
	}
	if _, err := whoami(t, relay); err != nil {
		t.Errorf("a unary call of the relay: %v; want it answered", err)
	}
}

// TestConnectionsOfWeakIdentities: neither connections of weak certificates nor silent ones take the relay's place
// behind their address.
func TestConnectionsOfWeakIdentities(t *testing.T) {
	c := newCrowd(t, grpcserver.Limits{MaxConnectionsPerPeer: 2})
	for _, name := range []string{"a", "b", "c", "d"} {
		for range 2 {
			settle(t, c.rawTLS(c.certificate(name)))
		}
	}
	oldest := c.raw("tcp", c.tcp)
	for range 8 {
		_ = c.raw("tcp", c.tcp)
	}
	closed(t, "the oldest silent connection", oldest)
	if who, err := whoami(t, c.remote(c.certificate("relay"))); err != nil {
		t.Errorf("the relay is %q, %v; want it served", who, err)
	}
}

// TestListenerOfWeakIdentities: nor do they take the whole listener.
func TestListenerOfWeakIdentities(t *testing.T) {
	c := newCrowd(t, grpcserver.Limits{MaxConnections: 8, MaxConnectionsPerPeer: 100})
	for range 8 {
		settle(t, c.rawTLS(c.certificate("a")))
	}
	for range 8 {
		_ = c.raw("tcp", c.tcp)
	}
	if who, err := whoami(t, c.remote(c.certificate("relay"))); err != nil {
		t.Errorf("the relay is %q, %v; want it served", who, err)
	}
}

// TestRequestRateOfWeakIdentities: calls that others behind its address make too often don't count for the relay.
func TestRequestRateOfWeakIdentities(t *testing.T) {
	c := newCrowd(t, grpcserver.Limits{RequestsPerSecond: 1, Burst: 2})
	answered := map[string]int{}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		client := c.remote(c.certificate(name))
		for range 4 {
			if _, err := whoami(t, client); err == nil {
				answered[name]++
			}
		}
	}
	if answered["a"] != 2 || answered["e"] != 0 {
		t.Errorf("%v calls of the inspectors are answered; want 2 each, and 6 together", answered)
	}
	if _, err := whoami(t, c.remote(c.certificate("relay"))); err != nil {
		t.Errorf("the relay's call: %v; want it answered", err)
	}
}

// TestHealthStreamsOfWeakIdentities: a quarter of the streams of health is for consumers and operators.
func TestHealthStreamsOfWeakIdentities(t *testing.T) {
	c := newCrowd(t, grpcserver.Limits{MaxHealthStreams: 8, MaxHealthStreamsPerPeer: 4})
	health := func(name string) error {
		client := healthv1.NewHealthClient(c.dial("passthrough:///"+c.tcp, credentials.NewTLS(c.certificate(name))))
		stream, err := client.Watch(t.Context(), &healthv1.HealthCheckRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	for _, name := range []string{"a", "a", "a", "a", "b", "b"} {
		if err := health(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := health("b"); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("an inspector's stream over three quarters: %v; want RESOURCE_EXHAUSTED", err)
	}
	if err := health("relay"); err != nil {
		t.Errorf("the relay's: %v; want it served", err)
	}
}

// rawTLS is a connection that is through its TLS handshake. The server may have closed it after that.
func (c *crowd) rawTLS(cfg *tls.Config) net.Conn {
	c.t.Helper()
	cfg = cfg.Clone()
	cfg.NextProtos, cfg.ServerName = []string{"h2"}, "127.0.0.1"
	conn := tls.Client(c.raw("tcp", c.tcp), cfg)
	if err := conn.Handshake(); err != nil {
		c.t.Fatal(err)
	}
	return conn
}

// settle waits until the server has counted the connection: then it sends its settings, or closes it.
func settle(t *testing.T, conn net.Conn) {
	t.Helper()
	var timeout net.Error
	if _, err := io.ReadFull(conn, make([]byte, 1)); errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatalf("the server neither serves nor closes a connection: %v", err)
	}
}

// TestWaitingRequest: the time limit of a request begins when its stream has its peer's token.
func TestWaitingRequest(t *testing.T) {
	const limit = time.Second
	g := guard(t, nil, grpcserver.Limits{RequestTimeout: limit, MaxReceivingPerPeer: 1}, nil)
	first, second := speak(t, g.raw("unix", g.unix)), speak(t, g.raw("unix", g.unix))
	silentCall(t, first, 1)
	until(t, "the first call has the token", func() bool { return g.server.Receiving() == 1 })
	silentCall(t, second, 1)
	awaitEnd(t, first, 1)
	ended := time.Now()
	awaitEnd(t, second, 1)
	if had := time.Since(ended); had < limit/2 {
		t.Errorf("a call that waited for its token is ended %v after it has it; want %v", had, limit)
	}
}
