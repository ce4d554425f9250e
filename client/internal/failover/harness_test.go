package failover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/test/bufconn"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const service = "podconfigd.sources"

// server is a podconfigd at the host of that name. Its streams send one message with the name as the node, and then
// nothing.
type server struct {
	podconfigv1.UnimplementedPodConfigServiceServer
	name   string
	health *health.Server

	mu       sync.Mutex
	listener *bufconn.Listener
	grpc     *grpc.Server
	ended    chan error
	// refusal is the error of each stream of pods, objectRefusal that of each stream of objects.
	refusal, objectRefusal error
	// dials counts the connections, checks the calls of its health.
	dials, checks int
	// deaf has it accept connections, and never answer.
	deaf bool
}

func newServer(name string, serving bool) *server {
	s := &server{name: name, health: health.NewServer()}
	s.set(serving)
	s.up()
	return s
}

func (s *server) set(serving bool) {
	status := healthv1.HealthCheckResponse_NOT_SERVING
	if serving {
		status = healthv1.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus(service, status)
}

func (s *server) up() {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := bufconn.Listen(1 << 16)
	s.listener, s.ended = l, make(chan error, 1)
	s.grpc = grpc.NewServer(grpc.UnaryInterceptor(s.count))
	podconfigv1.RegisterPodConfigServiceServer(s.grpc, s)
	healthv1.RegisterHealthServer(s.grpc, s.health)
	go func(g *grpc.Server, ended chan<- error) { ended <- g.Serve(l) }(s.grpc, s.ended)
}

func (s *server) down() {
	s.mu.Lock()
	g, ended := s.grpc, s.ended
	s.listener, s.grpc = nil, nil
	s.mu.Unlock()
	if g != nil {
		g.Stop()
		<-ended
	}
}

func (s *server) count(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	s.mu.Lock()
	s.checks++
	s.mu.Unlock()
	return handler(ctx, req)
}

func (s *server) dial(ctx context.Context) (net.Conn, error) {
	s.mu.Lock()
	s.dials++
	l, deaf := s.listener, s.deaf
	s.mu.Unlock()
	switch {
	case deaf:
		mine, theirs := net.Pipe()
		context.AfterFunc(ctx, func() { _ = theirs.Close() })
		go func() {
			for buffer := make([]byte, 1024); ; {
				if _, err := theirs.Read(buffer); err != nil {
					return
				}
			}
		}()
		return mine, nil
	case l == nil:
		return nil, errors.New("connection refused")
	}
	return l.DialContext(ctx)
}

func (s *server) counts() (dials, checks int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dials, s.checks
}

func (s *server) WatchPodUpdates(_ *podconfigv1.WatchPodUpdatesRequest, out grpc.ServerStreamingServer[podconfigv1.WatchPodUpdatesResponse]) error {
	if s.refusal != nil {
		return s.refusal
	}
	m := &podconfigv1.WatchPodUpdatesResponse{Event: &podconfigv1.WatchPodUpdatesResponse_Synced{
		Synced: &podconfigv1.Synced{Path: []*podconfigv1.RelayHop{{Id: s.name}}},
	}}
	if err := out.Send(m); err != nil {
		return err
	}
	<-out.Context().Done()
	return out.Context().Err()
}

func (s *server) WatchObjects(_ *podconfigv1.WatchObjectsRequest, out grpc.ServerStreamingServer[podconfigv1.WatchObjectsResponse]) error {
	if s.objectRefusal != nil {
		return s.objectRefusal
	}
	m := &podconfigv1.WatchObjectsResponse{Event: &podconfigv1.WatchObjectsResponse_Synced{
		Synced: &podconfigv1.Synced{Path: []*podconfigv1.RelayHop{{Id: s.name}}},
	}}
	if err := out.Send(m); err != nil {
		return err
	}
	<-out.Context().Done()
	return out.Context().Err()
}

// fleet is several servers, each the only address of an endpoint, and a client.
type fleet struct {
	*Conn
	t       *testing.T
	servers map[string]*server
	log     *strings.Builder
}

// run runs the test in a bubble, with the servers of these names; a name with a dash before it isn't SERVING.
func run(t *testing.T, names string, change func(*Config), test func(*testing.T, *fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{t: t, servers: map[string]*server{}, log: &strings.Builder{}}
		cfg := Config{
			Listed: true, Key: "key", Service: service, Lookup: f.lookup,
			Logger: slog.New(slog.NewTextHandler(f.log, nil)),
			Dial: func(c Candidate) (*grpc.ClientConn, error) {
				return grpc.NewClient(c.Target, grpc.WithTransportCredentials(insecure.NewCredentials()),
					grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
						return f.servers[strings.Trim(address[strings.LastIndex(address, "/")+1:], "/")].dial(ctx)
					}))
			},
		}
		for name := range strings.FieldsSeq(names) {
			name, sick := strings.CutPrefix(name, "-")
			f.servers[name] = newServer(name, !sick)
			cfg.Endpoints = append(cfg.Endpoints, Endpoint{Text: "unix:///" + name})
		}
		if change != nil {
			change(&cfg)
		}
		f.Conn = New(cfg)
		defer func() {
			if err := f.Close(); err != nil {
				t.Errorf("Close returns %v; want nil", err)
			}
			for _, s := range f.servers {
				s.down()
			}
		}()
		test(t, f)
	})
}

// lookup has no names.
func (f *fleet) lookup(_ context.Context, host string) ([]netip.Addr, error) {
	return nil, fmt.Errorf("no such host: %s", host)
}

// pods is a stream of pods.
type pods struct {
	grpc.ServerStreamingClient[podconfigv1.WatchPodUpdatesResponse]
	cancel context.CancelCauseFunc
}

// watch opens a stream of pods and returns it with the name of its server.
func (f *fleet) watch() (pods, string) {
	f.t.Helper()
	s, name, err := f.try()
	if err != nil {
		f.t.Fatalf("the stream has the error %v", err)
	}
	return s, name
}

func (f *fleet) try() (pods, string, error) {
	ctx, cancel := context.WithCancelCause(f.t.Context())
	s, err := podconfigv1.NewPodConfigServiceClient(f).WatchPodUpdates(ctx, &podconfigv1.WatchPodUpdatesRequest{})
	if err != nil {
		cancel(nil)
		return pods{}, "", err
	}
	m, err := s.Recv()
	if err != nil {
		cancel(nil)
		return pods{}, "", err
	}
	return pods{s, cancel}, m.GetSynced().GetPath()[0].GetId(), nil
}

// objects opens a stream of objects and returns the name of its server.
func (f *fleet) objects() (string, error) {
	s, err := podconfigv1.NewPodConfigServiceClient(f).WatchObjects(f.t.Context(), &podconfigv1.WatchObjectsRequest{})
	if err != nil {
		return "", err
	}
	m, err := s.Recv()
	if err != nil {
		return "", err
	}
	return m.GetSynced().GetPath()[0].GetId(), nil
}

// on returns the name of the server of the current connection.
func (f *fleet) on() string {
	if l := f.now(); l != nil {
		return strings.TrimPrefix(l.String(), "unix:///")
	}
	return ""
}

// wantOn fails unless a new stream is served by that server.
func (f *fleet) wantOn(name string) {
	f.t.Helper()
	s, got := f.watch()
	s.cancel(nil)
	if got != name {
		f.t.Fatalf("the stream is that of %s; want %s; the log:\n%s", got, name, f.log)
	}
}

// wantMoved fails unless a stream is served by that server. The first one may find that the connection is broken.
func (f *fleet) wantMoved(name string) {
	f.t.Helper()
	if s, _, err := f.try(); err == nil {
		s.cancel(nil)
	}
	f.wantOn(name)
}

// after returns how long it takes until the client is on that server, at most limit.
func (f *fleet) after(name string, limit time.Duration) time.Duration {
	f.t.Helper()
	start := time.Now()
	for f.on() != name {
		if time.Since(start) > limit {
			f.t.Fatalf("after %v the client is on %q; want %s; the log:\n%s", limit, f.on(), name, f.log)
		}
		time.Sleep(time.Second)
	}
	return time.Since(start)
}
