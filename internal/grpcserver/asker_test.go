package grpcserver_test

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/podstream/podstream/internal/access"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// slowPod takes slowCall to get, beginning when the server closes.
const (
	slowPod  = "slow"
	slowCall = 1500 * time.Millisecond
)

// asker returns its callers' identities, and has a stream until the caller ends it.
type asker struct {
	podconfigv1.UnimplementedPodConfigServiceServer

	closing chan struct{}
	// slow: a call for slowPod is under way.
	slow atomic.Bool
}

func (*asker) ListSources(ctx context.Context, _ *podconfigv1.ListSourcesRequest) (*podconfigv1.ListSourcesResponse, error) {
	caller, ok := access.FromContext(ctx)
	if !ok {
		return nil, errors.New("the call has no caller")
	}
	return &podconfigv1.ListSourcesResponse{Sources: []*podconfigv1.Source{{Name: caller.Identity, Location: caller.Role.String()}}}, nil
}

func (a *asker) GetPod(_ context.Context, req *podconfigv1.GetPodRequest) (*podconfigv1.GetPodResponse, error) {
	if req.GetRef().GetName() == slowPod {
		a.slow.Store(true)
		<-a.closing
		<-time.After(slowCall)
	}
	return &podconfigv1.GetPodResponse{}, nil
}

func (a *asker) WatchPodUpdates(
	_ *podconfigv1.WatchPodUpdatesRequest, stream grpc.ServerStreamingServer[podconfigv1.WatchPodUpdatesResponse],
) error {
	if err := stream.Send(&podconfigv1.WatchPodUpdatesResponse{}); err != nil {
		return err
	}
	select {
	case <-stream.Context().Done():
	case <-a.closing:
	}
	return nil
}
