package grpcserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/certtest"
	"github.com/podstream/podstream/internal/logtest"
)

// TestTurnOfClosed: a handshake whose connection is closed while it waits for its turn ends at once, and isn't served.
func TestTurnOfClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := heldTurns(t)
		for _, first := range []bool{true, false} {
			closed, ended := make(chan struct{}), make(chan error, 1)
			go func() { ended <- turns.acquire("a", first, time.Minute, closed) }()
			synctest.Wait()
			began := time.Now()
			close(closed)
			if err := <-ended; !errors.Is(err, net.ErrClosed) || time.Since(began) != 0 {
				t.Errorf("it ends with %v after %v; want %v at once", err, time.Since(began), net.ErrClosed)
			}
		}
		if others, begun, used := turns.state(); others+begun != 0 || used != 1 {
			t.Errorf("%d handshakes wait, and %d turns are held; want none and one", others+begun, used)
		}
	})
}

// TestTurnKey: one host can have all addresses of an IPv6 network of 64 bits, so these share their turns.
func TestTurnKey(t *testing.T) {
	for peer, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "192.0.2.2": "192.0.2.2", "2001:db8::1": "2001:db8::/64", "2001:db8::2:0:0:1": "2001:db8::/64",
		"2001:db8:0:1::1": "2001:db8:0:1::/64", "uid:0": "uid:0",
	} {
		if got := turnKey(peer); got != want {
			t.Errorf("the key of %s is %s; want %s", peer, got, want)
		}
	}
}

// hostile is a server over TLS with one turn.
type hostile struct {
	*Server
	ca      *certtest.CA
	address string
	log     *logtest.Buffer
	stop    func()
}

func newHostile(t *testing.T, limits Limits) *hostile {
	t.Helper()
	h := &hostile{ca: certtest.NewCA(t, "ca"), log: &logtest.Buffer{}}
	dir := t.TempDir()
	cert, key := h.ca.Issue(certtest.Request{Server: true})
	for name, data := range map[string][]byte{
		"cert": cert, "key": key, "ca": h.ca.PEM, "access": []byte("clients:\n- {commonName: node, role: consumer}\n"),
	} {
		certtest.WriteFile(t, dir+"/"+name, data)
	}
	a, err := access.New(access.Config{CertFile: dir + "/cert", KeyFile: dir + "/key", ClientCAFile: dir + "/ca", File: dir + "/access"})
	if err != nil {
		t.Fatal(err)
	}
	limits.MaxHandshakes = 1
	h.Server = New(Config{
		Register: func(grpc.ServiceRegistrar) {}, Access: a, Limits: limits, Logger: slog.New(slog.NewTextHandler(h.log, nil)),
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.address = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := h.Serve(ctx, []net.Listener{l}); err != nil {
			t.Error(err)
		}
	})
	h.stop = func() {
		cancel()
		serving.Wait()
	}
	t.Cleanup(h.stop)
	return h
}

// client is a node's.
func (h *hostile) client() *tls.Config {
	c := h.ca.Client(h.ca, certtest.Request{CommonName: "node"})
	c.NextProtos = []string{"h2"}
	return c
}

// enter makes a connection, and returns whether the server accepts it.
func (h *hostile) enter(cfg *tls.Config) error {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 20 * time.Second}, "tcp", h.address, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_, err = conn.Read(make([]byte, 1)) // In TLS 1.3 the client is done before the server has verified it.
	return err
}

// TestStopWhileHandshakesWait: handshakes that wait for their turn don't delay the end of the server. Without the turn
// of another one they would wait for 10 s.
func TestStopWhileHandshakesWait(t *testing.T) {
	h := newHostile(t, Limits{})
	if err := h.guard.turns.acquire("holder", true, time.Minute, nil); err != nil {
		t.Fatal(err)
	}
	defer h.guard.turns.release()
	var clients sync.WaitGroup
	defer clients.Wait()
	for range 20 {
		clients.Go(func() {
			if h.enter(h.client()) == nil {
				t.Error("a client got in without a turn")
			}
		})
	}
	awaits(t, "the handshakes wait", func() bool { others, _, _ := h.guard.turns.state(); return others == 20 })
	began := time.Now()
	h.stop()
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("the server took %v to end; want it at once", took)
	}
	if others, begun, used := h.guard.turns.state(); others+begun != 0 || used != 1 {
		t.Errorf("%d handshakes wait still, and %d turns are held; want none and one", others+begun, used)
	}
}

// TestHandshakeBytes: a peer that sends more than a chain of certificates needs is refused before crypto/tls has all.
func TestHandshakeBytes(t *testing.T) {
	h := newHostile(t, Limits{})
	cfg := h.client()
	pair, err := tls.X509KeyPair(h.ca.Issue(certtest.Request{CommonName: "node"}))
	if err != nil {
		t.Fatal(err)
	}
	for size := 0; size < maxHandshakeBytes; size += len(h.ca.Certificate.Raw) {
		pair.Certificate = append(pair.Certificate, h.ca.Certificate.Raw)
	}
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	if h.enter(cfg) == nil {
		t.Error("the handshake succeeds")
	}
	// The client may have the answer before the server has logged why.
	awaits(t, "the log has the reason", func() bool { return strings.Contains(h.log.String(), errHandshakeBytes.Error()) })
	if err := h.enter(h.client()); err != nil {
		t.Errorf("another client: %v", err)
	}
}

// TestSlowHandshakes: peers that send their handshake byte by byte, or stop in it, hold no turn: another client gets in
// beside them, from their own address too.
func TestSlowHandshakes(t *testing.T) {
	h := newHostile(t, Limits{HandshakeTimeout: time.Second})
	var slow sync.WaitGroup
	for i := range 50 {
		conn, err := net.Dial("tcp", h.address)
		if err != nil {
			t.Fatal(err)
		}
		slow.Go(func() {
			defer func() { _ = conn.Close() }()
			// A record of a ClientHello, which never ends.
			for _, b := range append([]byte{22, 3, 1, 1, 0, 1, 0, 0xfc, 3, 3}, make([]byte, 200)...) {
				if _, err := conn.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Duration(i) * time.Millisecond)
			}
			_, _ = conn.Read(make([]byte, 1))
		})
	}
	for i := range 20 {
		began := time.Now()
		if err := h.enter(h.client()); err != nil || time.Since(began) > time.Second {
			t.Errorf("client %d: %v after %v", i, err, time.Since(began))
		}
	}
	slow.Wait()
	if others, begun, used := h.guard.turns.state(); others+begun+used != 0 {
		t.Errorf("in the end %d turns are held, and %d handshakes wait", used, others+begun)
	}
}

// TestManyAddressesOfOneNetwork: the addresses of one IPv6 network have the turns of one, so another address's
// handshake waits for no more than one of theirs.
func TestManyAddressesOfOneNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := heldTurns(t)
		turns.cost = 10 * time.Millisecond
		var waiting sync.WaitGroup
		for i := range 1000 {
			waiting.Go(func() {
				if turns.acquire(turnKey(fmt.Sprintf("2001:db8::%x", i+1)), true, time.Minute, nil) == nil {
					turns.release()
				}
			})
		}
		synctest.Wait()
		if others, _, _ := turns.state(); others > 401 {
			t.Errorf("%d handshakes of the network wait; want those of 4 s", others)
		}
		waiting.Go(func() {
			if err := turns.acquire("192.0.2.1", true, time.Minute, nil); err != nil {
				t.Error(err)
				return
			}
			if others, _, _ := turns.state(); others < 399 {
				t.Errorf("%d handshakes of the network wait still; want all but one", others)
			}
			turns.release()
		})
		synctest.Wait()
		turns.release()
		waiting.Wait()
	})
}

// awaits waits for something of which the server gives no sign.
func awaits(t *testing.T, what string, yes func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !yes(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after 20 s it isn't true that %s", what)
		}
	}
}
