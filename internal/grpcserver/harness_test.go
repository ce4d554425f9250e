package grpcserver_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/grpcserver"
	"github.com/podstream/podstream/internal/logtest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// patience is the time limit of a test for an immediate event.
const patience = 20 * time.Second

// guarded is a server on a socket and, if it has TLS files, on TCP.
type guarded struct {
	t        *testing.T
	server   *grpcserver.Server
	service  *asker
	unix     string // the socket's path
	tcp      string // host:port
	clock    *clocktesting.FakeClock
	log      *logtest.Buffer
	registry *prometheus.Registry
	stop     func()
}

// guard serves with access, which may be nil, and limits. The clock stands still unless the test moves it.
func guard(t *testing.T, a *access.Access, limits grpcserver.Limits, clk *clocktesting.FakeClock) *guarded {
	t.Helper()
	g := &guarded{t: t, unix: filepath.Join(socketDir(t), "s"), clock: clk, log: &logtest.Buffer{}, registry: prometheus.NewRegistry()}
	if g.clock == nil {
		g.clock = clocktesting.NewFakeClock(time.Now())
	}
	svc := &asker{closing: make(chan struct{})}
	g.service = svc
	g.server = grpcserver.New(grpcserver.Config{
		Register: func(r grpc.ServiceRegistrar) { podconfigv1.RegisterPodConfigServiceServer(r, svc) },
		Closing:  func() { close(svc.closing) },
		Access:   a, Limits: limits, Clock: g.clock, Logger: slog.New(slog.NewTextHandler(g.log, nil)), Metrics: g.registry,
	})
	addresses := []string{"unix://" + g.unix}
	if a != nil && a.TLS() {
		addresses = append(addresses, "tcp://127.0.0.1:0")
	}
	listeners, err := grpcserver.ListenFor(a, addresses)
	if err != nil {
		t.Fatal(err)
	}
	if len(listeners) > 1 {
		g.tcp = listeners[1].Addr().String()
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := g.server.Serve(ctx, listeners); err != nil {
			t.Errorf("Serve returns %v; want nil", err)
		}
	}()
	g.stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(func() {
		g.stop()
		if !g.server.NoConnections() {
			t.Errorf("the server has ended and counts connections still: %v", g.server.Connections())
		}
	})
	return g
}

// local is a client on the socket.
func (g *guarded) local() podconfigv1.PodConfigServiceClient {
	return podconfigv1.NewPodConfigServiceClient(g.dial("unix://"+g.unix, insecure.NewCredentials()))
}

// remote is a client over TLS.
func (g *guarded) remote(cfg *tls.Config) podconfigv1.PodConfigServiceClient {
	return podconfigv1.NewPodConfigServiceClient(g.dial("passthrough:///"+g.tcp, credentials.NewTLS(cfg)))
}

func (g *guarded) dial(target string, creds credentials.TransportCredentials, opts ...grpc.DialOption) *grpc.ClientConn {
	g.t.Helper()
	conn, err := grpc.NewClient(target, append(opts, grpc.WithTransportCredentials(creds))...)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// raw is a connection without a gRPC client. Reads have patience as their limit.
func (g *guarded) raw(network, address string) net.Conn {
	g.t.Helper()
	conn, err := net.Dial(network, address)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		g.t.Fatal(err)
	}
	return conn
}

// closed waits until the server closes the connection.
func closed(t *testing.T, what string, conn net.Conn) {
	t.Helper()
	var timeout net.Error
	if _, err := io.Copy(io.Discard, conn); errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("%s is open still; want it closed", what)
	}
}

// hurry moves the clock by a second each millisecond, until the returned func is called.
func (g *guarded) hurry() (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-end:
				return
			case <-ticker.C:
				g.clock.Step(time.Second)
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(end)
		<-ended
	})
}

// refused is podstream_grpc_refused_total of the reason.
func (g *guarded) refused(reason string) int {
	g.t.Helper()
	families, err := g.registry.Gather()
	if err != nil {
		g.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "podstream_grpc_refused_total" && m.GetLabel()[0].GetValue() == reason {
				return int(m.GetCounter().GetValue())
			}
		}
	}
	g.t.Fatalf("there is no podstream_grpc_refused_total of the reason %q", reason)
	return 0
}

// until polls until the function returns true.
func until(t *testing.T, what string, yes func() bool) {
	t.Helper()
	deadline := time.After(patience)
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for !yes() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("it never came to this: %s", what)
		}
	}
}
