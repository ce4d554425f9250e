package client_test

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/test/bufconn"

	"github.com/podstream/podstream/client"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// bubble connects a client to the script within the test's synctest bubble.
func bubble(t *testing.T, s *script, interval time.Duration) (c *client.Client, stop func()) {
	t.Helper()
	return bubbleWith(t, s, client.Config{Heartbeat: interval})
}

func bubbleWith(t *testing.T, api podconfigv1.PodConfigServiceServer, cfg client.Config) (c *client.Client, stop func()) {
	t.Helper()
	l := bufconn.Listen(1 << 20)
	// As podconfigd enforces it; gRPC's default takes a ping each 30 s for abuse.
	server := grpc.NewServer(grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}))
	podconfigv1.RegisterPodConfigServiceServer(server, api)
	ended := make(chan error)
	go func() { ended <- server.Serve(l) }()
	cfg.Endpoint = "unix:///in/memory"
	cfg.DialOptions = []grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
	}
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c, func() {
		_ = c.Close()
		server.Stop()
		if err := <-ended; err != nil {
			t.Errorf("Serve ends with %v; want nil", err)
		}
	}
}
