package grpcserver_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/certtest"
	"github.com/podstream/podstream/internal/grpcserver"
)

// watchHealth begins a Watch of health, and returns the error that it gets instead of an answer.
func watchHealth(ctx context.Context, c healthv1.HealthClient) error {
	watch, err := c.Watch(ctx, &healthv1.HealthCheckRequest{})
	if err == nil {
		_, err = watch.Recv()
	}
	return err
}

// TestHealthStreams: a peer may have a few streams of health and reflection, all peers together some more, and the
// end of one allows another. Checks are no streams.
func TestHealthStreams(t *testing.T) {
	files := newTLSDir(t, "clients:\n- {commonName: a, role: inspector}\n")
	g := guard(t, files.access(nil), grpcserver.Limits{MaxHealthStreams: 5, MaxHealthStreamsPerPeer: 3}, nil)
	conn := g.dial("unix://"+g.unix, insecure.NewCredentials())
	local := healthv1.NewHealthClient(conn)
	remote := healthv1.NewHealthClient(g.dial("passthrough:///"+g.tcp, credentials.NewTLS(files.ca.Client(files.ca, certtest.Request{CommonName: "a"}))))
	refused := func(what, want string, err error) {
		t.Helper()
		if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want RESOURCE_EXHAUSTED with %q", what, err, want)
		}
	}
	ctx, endOne := context.WithCancel(t.Context())
	for i, ctx := range []context.Context{ctx, t.Context(), t.Context()} {
		if err := watchHealth(ctx, local); err != nil {
			t.Fatalf("stream %d of a peer: %v; want it served", i, err)
		}
	}
	const ofPeer = "uid:0 has 3 streams of health and reflection already"
	refused("a fourth Watch of a peer", ofPeer, watchHealth(t.Context(), local))
	describe, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = describe.Recv()
	refused("a stream of reflection besides three Watches", ofPeer, err)
	for i := range 2 {
		if err := watchHealth(t.Context(), remote); err != nil {
			t.Fatalf("stream %d of another peer: %v; want it served", i, err)
		}
	}
	refused("one more than all peers may have", "the daemon has 5 streams", watchHealth(t.Context(), remote))
	if got := g.refused("health_streams"); got != 3 {
		t.Errorf("%d streams are counted as refused; want 3", got)
	}
	for range 10 {
		if _, err := local.Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
			t.Errorf("a check: %v; want it answered", err)
		}
	}
	endOne()
	until(t, "a stream that has ended makes room", func() bool { return watchHealth(t.Context(), local) == nil })
}

// TestHealthWithoutRole: a caller without a role may check health, but not watch it, nor keep many checks waiting for
// their messages.
func TestHealthWithoutRole(t *testing.T) {
	files := newTLSDir(t, "clients: []\n")
	g := guard(t, files.access(nil), grpcserver.Limits{}, nil)
	conn := g.dial("passthrough:///"+g.tcp, credentials.NewTLS(files.ca.Client(files.ca, certtest.Request{CommonName: "x"})))
	client := healthv1.NewHealthClient(conn)
	if _, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
		t.Errorf("a check: %v; want it answered", err)
	}
	if err := watchHealth(t.Context(), client); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a Watch: %v; want PERMISSION_DENIED", err)
	}
	ctx, end := context.WithCancel(t.Context())
	for i := range 10 {
		// A check of which only the header is sent.
		if _, err := conn.NewStream(ctx, &healthv1.Health_ServiceDesc.Streams[0], healthv1.Health_Check_FullMethodName); err != nil {
			t.Fatalf("check %d: %v; want it sent", i, err)
		}
	}
	until(t, "six checks of ten are refused", func() bool { return g.refused("calls_without_role") == 6 })
	if _, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a check besides four that wait: %v; want RESOURCE_EXHAUSTED", err)
	}
	end()
	until(t, "checks that have ended make room", func() bool {
		_, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{})
		return err == nil
	})
}
