package grpcserver_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/grpcserver"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

func TestMain(m *testing.M) {
	if socket := os.Getenv(childSocket); socket != "" {
		child(socket)
		return
	}
	goleak.VerifyTestMain(m)
}

// service panics or waits, on request.
type service struct {
	podconfigv1.UnimplementedPodConfigServiceServer

	closing chan struct{}
}

func (*service) GetPod(context.Context, *podconfigv1.GetPodRequest) (*podconfigv1.GetPodResponse, error) {
	panic("unary boom")
}

func (s *service) WatchPodUpdates(
	req *podconfigv1.WatchPodUpdatesRequest, stream grpc.ServerStreamingServer[podconfigv1.WatchPodUpdatesResponse],
) error {
	if req.GetConsumer() == "panic" {
		panic("stream boom")
	}
	if err := stream.Send(&podconfigv1.WatchPodUpdatesResponse{}); err != nil {
		return err
	}
	<-s.closing
	return status.Error(codes.Unavailable, "closing")
}

// running is a server with one listener, and a connection to it.
type running struct {
	conn *grpc.ClientConn
	log  *bytes.Buffer
	// stop ends the server and returns what Serve returned.
	stop func() error
}

func run(t *testing.T, metrics prometheus.Registerer) *running {
	t.Helper()
	r := &running{log: &bytes.Buffer{}}
	svc := &service{closing: make(chan struct{})}
	server := grpcserver.New(grpcserver.Config{
		Register: func(s grpc.ServiceRegistrar) { podconfigv1.RegisterPodConfigServiceServer(s, svc) },
		Closing:  func() { close(svc.closing) },
		Logger:   slog.New(slog.NewTextHandler(r.log, nil)), Metrics: metrics,
	})
	address := "unix://" + filepath.Join(socketDir(t), "s")
	listeners := listen(t, address)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- server.Serve(ctx, listeners)
		close(ended)
	}()
	r.stop = func() error {
		cancel()
		return <-ended
	}
	t.Cleanup(func() { _ = r.stop() })
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	r.conn = conn
	return r
}

// TestPanicIsInternal: a panic in a handler is its caller's INTERNAL, without its text, and the log's stack trace;
// the server goes on.
func TestPanicIsInternal(t *testing.T) {
	r := run(t, nil)
	api := podconfigv1.NewPodConfigServiceClient(r.conn)
	for range 2 {
		_, err := api.GetPod(t.Context(), &podconfigv1.GetPodRequest{})
		if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "boom") {
			t.Errorf("a call that panics: %v; want INTERNAL, without what the panic said", err)
		}
		stream, err := api.WatchPodUpdates(t.Context(), &podconfigv1.WatchPodUpdatesRequest{Consumer: "panic"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = stream.Recv(); status.Code(err) != codes.Internal {
			t.Errorf("a stream that panics: %v; want INTERNAL", err)
		}
	}
	if err := r.stop(); err != nil {
		t.Errorf("Serve returns %v; want nil", err)
	}
	for _, want := range []string{"unary boom", "stream boom", "server_test.go"} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("the log lacks %q; want the panics with their stacks:\n%s", want, r.log)
		}
	}
}

// TestHealthAndReflection: both are served in version 1, for what was registered.
func TestHealthAndReflection(t *testing.T) {
	r := run(t, nil)
	resp, err := healthv1.NewHealthClient(r.conn).Check(t.Context(), &healthv1.HealthCheckRequest{})
	if err != nil || resp.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("health is %v, %v; want SERVING", resp.GetStatus(), err)
	}
	stream, err := reflectionv1.NewServerReflectionClient(r.conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = stream.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}})
	if err != nil {
		t.Fatal(err)
	}
	list, err := stream.Recv()
	if err != nil {
		t.Fatalf("reflection: %v; want the list of services", err)
	}
	_ = stream.CloseSend()
	var names []string
	for _, s := range list.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	for _, want := range []string{"podconfig.v1.PodConfigService", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"} {
		if !slices.Contains(names, want) {
			t.Errorf("reflection lists %q; want %s among them", names, want)
		}
	}
}

// TestStop: a server that stops ends its streams, and Serve returns nil.
func TestStop(t *testing.T) {
	r := run(t, nil)
	stream, err := podconfigv1.NewPodConfigServiceClient(r.conn).WatchPodUpdates(t.Context(), &podconfigv1.WatchPodUpdatesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatalf("the stream's first message: %v; want one", err)
	}
	if err := r.stop(); err != nil {
		t.Errorf("Serve returns %v; want nil", err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream ends with %v; want UNAVAILABLE", err)
	}
}

// TestServeAfterTheEnd: a daemon that is stopped while it starts ends without an error.
func TestServeAfterTheEnd(t *testing.T) {
	for range 20 {
		server := grpcserver.New(grpcserver.Config{Register: func(grpc.ServiceRegistrar) {}})
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		dir := socketDir(t)
		if err := server.Serve(ctx, listen(t, "unix://"+filepath.Join(dir, "a"), "unix://"+filepath.Join(dir, "b"))); err != nil {
			t.Fatalf("Serve, when its context has ended already: %v; want nil", err)
		}
	}
}

// TestListenerFails: a listener that breaks ends the server with an error that names it.
func TestListenerFails(t *testing.T) {
	server := grpcserver.New(grpcserver.Config{Register: func(grpc.ServiceRegistrar) {}})
	dir := socketDir(t)
	listeners := listen(t, "unix://"+filepath.Join(dir, "good"), "unix://"+filepath.Join(dir, "broken"))
	_ = listeners[1].Close()
	if err := server.Serve(t.Context(), listeners); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("Serve with a broken listener: %v; want an error that names it", err)
	}
}

// TestMetrics: calls are counted by method and code.
func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	r := run(t, registry)
	_, _ = podconfigv1.NewPodConfigServiceClient(r.conn).GetPod(t.Context(), &podconfigv1.GetPodRequest{})
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if f.GetName() == "grpc_server_handled_total" && labels["grpc_method"] == "GetPod" && labels["grpc_code"] == "Internal" {
				if got := m.GetCounter().GetValue(); got != 1 {
					t.Errorf("the call that panicked is counted %v times as INTERNAL; want once", got)
				}
				return
			}
		}
	}
	t.Error("grpc_server_handled_total has no count for GetPod with INTERNAL; want one")
}
