package podctl

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"

	"github.com/podstream/podstream/internal/recording"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

const (
	// maxReplayRequest is the maximum size of a request: the known pods of a consumer.
	maxReplayRequest = 4 << 20
	// maxReplayStreams is the maximum number of streams of one connection.
	maxReplayStreams = 256
	// replayHandshake is the time limit of a connection's handshake.
	replayHandshake = 10 * time.Second
	// replayGrace is the time limit of the streams under way once the replay ends.
	replayGrace = 5 * time.Second
)

// serveReplay serves the recording on the listener until ctx ends. The kernel refuses all users but the caller and root: the mode
// of the socket is 0600. So the server has none of the daemons' limits for callers, which would make podctl 0.5 MB larger.
func serveReplay(ctx context.Context, replay *recording.Server, listener net.Listener) error {
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxReplayRequest), grpc.MaxConcurrentStreams(maxReplayStreams),
		grpc.ConnectionTimeout(replayHandshake))
	podconfigv1.RegisterPodConfigServiceServer(server, replay)
	reflection.RegisterV1(server)
	ended := make(chan struct{})
	served := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-ctx.Done():
		case <-served:
		}
		replay.Close()
		// A client process that was stopped doesn't end its connection.
		end := time.AfterFunc(replayGrace, server.Stop)
		defer end.Stop()
		server.GracefulStop()
	}()
	err := server.Serve(listener)
	close(served)
	<-ended
	if err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	}
	return nil
}
