package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"

	"github.com/podstream/podstream/client/stream"
	"github.com/podstream/podstream/internal/recording"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// play applies a recording, as fast as it can be read.
func (u *Upstream) play(ctx context.Context) {
	reader, err := recording.Open(u.cfg.Recording)
	if err != nil {
		u.board.Desired.Ended(err.Error())
		return
	}
	defer func() { _ = reader.Close() }() // It was only read.
	tape := &tape{reader: reader, now: reader.Header().Recorded}
	f := &desiredFollower{upstream: u, api: tape, held: stream.NewHeld(nil, nil), request: reader.Header().Request, received: tape.time}
	err = f.stream(ctx, func() {})
	if !f.started {
		// It ends before its initial state is complete.
		u.board.ApplyDesired(true, f.initial...)
	}
	u.board.Timeline.BeginsBecause("the recording begins here", nil)
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, stream.ErrEnded) && reader.CutOff():
		u.board.Desired.Ended("the recording is cut off here")
	case errors.Is(err, stream.ErrEnded):
		u.board.Desired.Ended(fmt.Sprintf("the recording ends at %s", tape.now.UTC().Format(time.RFC3339)))
	default:
		u.board.Desired.Ended(err.Error())
	}
}

// tape is a recording as a podconfigd that has one stream. It implements the client's side of WatchPodUpdates only.
type tape struct {
	podconfigv1.PodConfigServiceClient
	grpc.ServerStreamingClient[podconfigv1.WatchPodUpdatesResponse]
	reader *recording.Reader
	ctx    context.Context //nolint:containedctx // It is that of the stream.
	now    time.Time
}

// time is when the last message was recorded.
func (t *tape) time() time.Time { return t.now }

// WatchPodUpdates returns the recording.
func (t *tape) WatchPodUpdates(
	ctx context.Context, _ *podconfigv1.WatchPodUpdatesRequest, _ ...grpc.CallOption,
) (grpc.ServerStreamingClient[podconfigv1.WatchPodUpdatesResponse], error) {
	t.ctx = ctx
	return t, nil
}

// Recv returns the next message.
func (t *tape) Recv() (*podconfigv1.WatchPodUpdatesResponse, error) {
	if err := t.ctx.Err(); err != nil {
		return nil, err
	}
	e, err := t.reader.Read()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, err
	}
	t.now = t.reader.Header().Recorded.Add(e.At)
	return e.Message, nil
}
