package webtest

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/podstream/podstream/internal/grpcserver"
	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	"github.com/podstream/podstream/internal/mergesvc/service"
	"github.com/podstream/podstream/internal/mergesvc/wire"
	"github.com/podstream/podstream/internal/podctl/web/upstream"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Deadline is how long a test waits for what must come. It is long, as the machine may be busy.
const Deadline = time.Minute

// server is a gRPC server at a socket, which can go away and come back.
type server struct {
	t        testing.TB
	name     string
	endpoint string
	register func(grpc.ServiceRegistrar)
	closing  func()
	stop     func()
}

func newServer(t testing.TB, name string, register func(grpc.ServiceRegistrar)) *server {
	t.Helper()
	// A test's own directory is too long for a socket.
	dir, err := os.MkdirTemp("", "pw")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &server{t: t, name: name, endpoint: "unix://" + filepath.Join(dir, "s"), register: register, stop: func() {}}
	t.Cleanup(func() { s.stop() })
	return s
}

// NewServer serves what register registers until the test ends, and returns a connection to it.
func NewServer(t testing.TB, name string, register func(grpc.ServiceRegistrar)) *upstream.Daemon {
	t.Helper()
	s := newServer(t, name, register)
	s.closing = func() {}
	s.up()
	return s.daemon()
}

// up serves until down is called, or the test ends.
func (s *server) up() {
	s.t.Helper()
	listeners, err := grpcserver.Listen([]string{s.endpoint})
	if err != nil {
		s.t.Fatal(err)
	}
	srv := grpcserver.New(grpcserver.Config{
		Register: s.register, Closing: s.closing, ServerOptions: []grpc.ServerOption{grpc.ForceServerCodecV2(wire.NewCodec())},
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = srv.Serve(ctx, listeners)
	}()
	s.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
}

// daemon returns a connection that ends with the test.
func (s *server) daemon() *upstream.Daemon {
	s.t.Helper()
	conn, err := grpc.NewClient(s.endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(grpc.ConnectParams{
		Backoff: backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.6, MaxDelay: 100 * time.Millisecond}, MinConnectTimeout: Deadline,
	}))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	return &upstream.Daemon{Name: s.name, Endpoint: s.endpoint, Conn: conn, Explain: func(err error) error { return err }}
}

// Podconfigd is a podconfigd whose sources are set by the test. Its history outlives its servers.
type Podconfigd struct {
	*server
	sources []string
	config  mergesvc.Config

	// Diff answers DiffManifests. Nil: the service does.
	Diff func(*podconfigv1.DiffManifestsRequest) (*podconfigv1.DiffManifestsResponse, error)

	mu     sync.Mutex
	hub    *mergesvc.Hub
	svc    *service.Server
	second int64
}

// api is the service with some answers of the test's.
type api struct {
	*service.Server
	podconfigd *Podconfigd
}

// DiffManifests implements podconfigv1.PodConfigServiceServer.
func (a api) DiffManifests(ctx context.Context, req *podconfigv1.DiffManifestsRequest) (*podconfigv1.DiffManifestsResponse, error) {
	if a.podconfigd.Diff != nil {
		return a.podconfigd.Diff(req)
	}
	return a.Server.DiffManifests(ctx, req)
}

// NewPodconfigd returns a podconfigd that is up, and keeps so many revisions; 0 means as many as by default.
func NewPodconfigd(t testing.TB, revisions int, sources ...string) *Podconfigd {
	t.Helper()
	p := &Podconfigd{sources: sources, config: mergesvc.Config{Revisions: revisions}}
	for _, name := range sources {
		p.config.Sources = append(p.config.Sources, merge.Source{Name: name})
	}
	p.server = newServer(t, "podconfigd", func(r grpc.ServiceRegistrar) { podconfigv1.RegisterPodConfigServiceServer(r, api{p.svc, p}) })
	p.hub = mergesvc.NewHub(p.config)
	p.Up()
	return p
}

// Up serves.
func (p *Podconfigd) Up() {
	p.svc = service.New(service.Config{History: p.hub.History(), Sources: p.hub.Sources})
	p.closing = p.svc.Close
	p.up()
}

// Down ends all streams.
func (p *Podconfigd) Down() { p.stop() }

// Replace makes it another podconfigd, without pods and history. It must be down.
func (p *Podconfigd) Replace() { p.hub = mergesvc.NewHub(p.config) }

// Set sets the origins of a source, in the notation of package mergetest.
func (p *Podconfigd) Set(source, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.second++
	p.hub.Apply(mergetest.Set(source, p.second, text))
}

// Daemon returns a connection to it.
func (p *Podconfigd) Daemon() *upstream.Daemon { return p.daemon() }
