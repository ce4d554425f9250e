package podctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// errFollowed ends a statusFollower: its look function has seen enough.
var errFollowed = errors.New("the condition is met")

// statusFollower keeps the observed pods that match a filter, across reconnections, and looks at them after each change.
type statusFollower struct {
	reconnection
	filter *podconfigv1.PodFilter
	// look is called with all pods, by UID, once they are complete, and after each change. Its error ends the follower.
	look func(pods map[string]*podexecv1.ObservedPod) error

	pods map[string]*podexecv1.ObservedPod
	// token is the position of pods.
	token string
}

// followStatus calls look until it returns an error: errFollowed is success. The error is the
// cause of the end of ctx if it ended before.
func (t *tool) followStatus(ctx context.Context, filter *podconfigv1.PodFilter, look func(map[string]*podexecv1.ObservedPod) error) error {
	f := &statusFollower{
		reconnection: reconnection{tool: t, daemon: t.podexecd.name}, filter: filter, look: look, pods: map[string]*podexecv1.ObservedPod{},
	}
	err := f.reconnect(ctx, f.subscribe, permanent, func(err error) { t.note("%v; reconnecting", err) })
	switch {
	case errors.Is(err, errFollowed):
		return nil
	case err == nil:
		return context.Cause(ctx)
	}
	return err
}

// errLimit is the cause of the end of a context by withLimit.
var errLimit = errors.New("the time limit is over")

// withLimit returns ctx with a time limit by the tool's clock. Zero: it has none. release ends the context's goroutine.
func (t *tool) withLimit(ctx context.Context, limit time.Duration) (limited context.Context, release func()) {
	limited, cancel := context.WithCancelCause(ctx)
	if limit <= 0 {
		return limited, func() { cancel(nil) }
	}
	timer := t.Clock.NewTimer(limit)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		defer timer.Stop()
		select {
		case <-timer.C():
			cancel(errLimit)
		case <-limited.Done():
		}
	})
	return limited, func() { cancel(nil); waiting.Wait() }
}

// subscribe follows one stream to its end, and resumes after the last one.
func (f *statusFollower) subscribe(ctx context.Context) error {
	conn, err := f.tool.podexecd.connect(f.tool.userAgent())
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := podexecv1.NewPodExecServiceClient(conn).WatchPodStatus(ctx, &podexecv1.WatchPodStatusRequest{
		Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF, Filter: f.filter, ResumeToken: f.token,
	})
	if err == nil {
		err = f.follow(stream)
	}
	switch {
	case errors.As(err, new(ownError)):
		return err
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s at %s ended the stream", conn.daemon.name, &conn.daemon.endpoint)
	}
	return conn.explain(err)
}

// follow applies the messages of a stream until it ends, or look does. Messages without a resume token are applied once
// the catch-up is complete: a break before that discards them.
func (f *statusFollower) follow(stream grpc.ServerStreamingClient[podexecv1.WatchPodStatusResponse]) error {
	var held []*podexecv1.WatchPodStatusResponse
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		f.arrived()
		held = append(held, m)
		if m.GetResumeToken() == "" && m.GetSynced() == nil {
			continue
		}
		if synced := m.GetSynced(); synced != nil && !synced.GetResumed() {
			clear(f.pods)
		}
		for _, m := range held {
			if pod := m.GetPod(); pod != nil {
				f.pods[pod.GetRef().GetUid()] = pod
			}
			if removed := m.GetRemoved(); removed != nil {
				delete(f.pods, removed.GetUid())
			}
		}
		held, f.token = nil, m.GetResumeToken()
		if err := f.look(f.pods); err != nil {
			return ownError{err}
		}
	}
}
