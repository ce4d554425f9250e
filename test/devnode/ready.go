package devnode

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// readyTimeout bounds a wait for the runtime.
	readyTimeout = 60 * time.Second
	// firstRetry and lastRetry bound the pause between two questions, which doubles each time.
	firstRetry = 10 * time.Millisecond
	lastRetry  = 500 * time.Millisecond
)

// WaitReady waits until the runtime answers and says that it and its network are ready: at most 60 s, and no longer than the
// runtime's process lives.
func (n *Node) WaitReady(ctx context.Context) error {
	conn, err := dial(n.endpoint)
	if err != nil {
		return err
	}
	defer conn.Close()
	client := runtimeapi.NewRuntimeServiceClient(conn)
	return n.until(ctx, "the runtime to be ready", func(ctx context.Context) error {
		response, err := client.Status(ctx, &runtimeapi.StatusRequest{}, grpc.WaitForReady(true))
		if err != nil {
			return err
		}
		for _, condition := range response.GetStatus().GetConditions() {
			if !condition.GetStatus() {
				return fmt.Errorf("%s: %s %s", condition.GetType(), condition.GetReason(), condition.GetMessage())
			}
		}
		return nil
	})
}

// dial connects lazily, and tries again sooner than gRPC would by itself.
func dial(endpoint string) (*grpc.ClientConn, error) {
	return grpc.NewClient(endpoint,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstRetry, Multiplier: 2, MaxDelay: lastRetry},
			MinConnectTimeout: time.Second,
		}))
}

// until asks again and again until the answer is nil. Where that doesn't come in time, its error has the last answer.
func (n *Node) until(ctx context.Context, what string, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ended := make(<-chan struct{}) // of a runtime that isn't ours: never
	if n.runtime != nil {
		ended = n.runtime.Done()
	}
	go func() { // so that a call that waits for the connection ends, too
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
				err := errors.New("the runtime has ended")
				return fmt.Errorf("wait for %s: %w; its output ends with:\n%s", what, err, n.runtime.LogTail())
			default:
				return fmt.Errorf("wait for %s: %w; last answer: %w", what, ctx.Err(), last)
			}
		}
	}
}
