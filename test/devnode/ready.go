package devnode

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// readyTimeout bounds a wait for the runtime.
	readyTimeout = 60 * time.Second
	// firstRetry and lastRetry bound the pause between two requests, which doubles each time.
	firstRetry = 10 * time.Millisecond
	lastRetry  = 500 * time.Millisecond
)

// errEnded is the error of a wait whose process has ended.
var errEnded = errors.New("the process has ended")

// WaitReady waits until the runtime answers and reports that it and its network are ready. It waits at most 60 s, and
// only while the runtime's process runs.
func (n *Node) WaitReady(ctx context.Context) error {
	conn, err := dial(n.endpoint)
	if err != nil {
		return err
	}
	defer conn.Close()
	client := runtimeapi.NewRuntimeServiceClient(conn)
	return until(ctx, n.runtime, "the runtime to be ready", func(ctx context.Context) error {
		response, err := client.Status(ctx, &runtimeapi.StatusRequest{}, grpc.WaitForReady(true))
		if err != nil {
			return err
		}
		for _, condition := range response.GetStatus().GetConditions() {
			// containerd 2 has more conditions, which are warnings.
			required := condition.GetType() == runtimeapi.RuntimeReady || condition.GetType() == runtimeapi.NetworkReady
			if required && !condition.GetStatus() {
				return fmt.Errorf("%s: %s %s", condition.GetType(), condition.GetReason(), condition.GetMessage())
			}
		}
		return nil
	})
}

// WaitServing waits until a daemon that was just started answers health checks with SERVING at its endpoint. It waits
// at most 60 s, and only while the daemon's process runs.
func WaitServing(ctx context.Context, daemon *Process, endpoint string) error {
	conn, err := dial(endpoint)
	if err != nil {
		return err
	}
	defer conn.Close()
	client := healthpb.NewHealthClient(conn)
	return until(ctx, daemon, daemon.Name+" to serve", func(ctx context.Context) error {
		response, err := client.Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
		if err != nil {
			return err
		}
		if status := response.GetStatus(); status != healthpb.HealthCheckResponse_SERVING {
			return fmt.Errorf("its health is %s", status)
		}
		return nil
	})
}

// dial returns a connection that connects on first use, and retries sooner than gRPC's default.
func dial(endpoint string) (*grpc.ClientConn, error) {
	return grpc.NewClient(endpoint,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstRetry, Multiplier: 2, MaxDelay: lastRetry},
			MinConnectTimeout: time.Second,
		}))
}

// until calls ask repeatedly until it returns nil, while the process runs. The process is nil if another program
// started it. After a timeout, the error contains the last answer.
func until(ctx context.Context, asked *Process, what string, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ended := make(<-chan struct{}) // without a process: never closed
	if asked != nil {
		ended = asked.Done()
	}
	go func() { // cancels a call that waits for the connection
		select {
		case <-ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	var last error
	for pause := firstRetry; ; pause = min(2*pause, lastRetry) {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			select {
			case <-ended:
				return fmt.Errorf("wait for %s: %w; the output of %s ends with:\n%s", what, errEnded, asked.Name, asked.LogTail())
			default:
				return fmt.Errorf("wait for %s: %w; last answer: %w", what, ctx.Err(), last)
			}
		}
	}
}
