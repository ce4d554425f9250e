package upstream

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/podstream/podstream/client/stream"
	"github.com/podstream/podstream/internal/podctl/web/board"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// desiredFollower follows podconfigd's stream across connections.
type desiredFollower struct {
	upstream *Upstream
	api      podconfigv1.PodConfigServiceClient
	request  *podconfigv1.WatchPodUpdatesRequest
	held     *stream.Held
	// initial are the revisions before the first synced, which are all pods. started is set after it.
	initial []board.Published
	// size is that of initial.
	size    intake
	started bool
	// silence is how long the stream may be silent. received returns the time of what was received last.
	silence  time.Duration
	received func() time.Time
}

func newDesiredFollower(u *Upstream) *desiredFollower {
	return &desiredFollower{
		upstream: u, api: podconfigv1.NewPodConfigServiceClient(u.cfg.Podconfigd.Conn), held: stream.NewHeld(nil, nil),
		request: &podconfigv1.WatchPodUpdatesRequest{
			Consumer: u.cfg.Consumer, Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF,
			Mode:              podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL,
			HeartbeatInterval: durationpb.New(u.cfg.Heartbeat),
		},
		silence: 3 * u.cfg.Heartbeat, received: u.cfg.Clock.Now,
	}
}

// attempt follows one stream to its end, and resumes after the last one.
func (f *desiredFollower) attempt(ctx context.Context, live func()) error {
	err := f.stream(ctx, live)
	if errors.Is(err, stream.ErrUnknownOp) {
		// Snapshots have no ops that podctl doesn't know.
		f.request.Mode = podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT
	}
	return err
}

func (f *desiredFollower) stream(ctx context.Context, live func()) error {
	if !f.started {
		f.held, f.initial, f.size = stream.NewHeld(nil, nil), nil, intake{most: f.upstream.cfg.MaxBytes}
	}
	s, err := stream.Open(ctx, stream.Config{
		API: f.api, Request: f.held.Begin(f.request), Silence: f.silence, MaxRevisionBytes: f.upstream.cfg.MaxBytes,
	})
	if err != nil {
		return err
	}
	defer s.Close()
	synced := false
	for {
		r, err := s.Next()
		if err != nil {
			return err
		}
		if err := f.take(ctx, r); err != nil {
			return err
		}
		if r.Synced != nil && !synced {
			synced = true
			live()
		}
	}
}

// take applies a revision.
func (f *desiredFollower) take(ctx context.Context, r *stream.Revision) error {
	before := f.held.Cursor().GetInstanceId()
	outcome := f.held.Interpret(r)
	f.held.Apply(outcome)
	if _, bytes := f.held.Size(); bytes > f.upstream.cfg.MaxBytes {
		return errTooMuch
	}
	p := board.Published{
		Revision: r, Ops: outcome.Ops, Cursor: outcome.Cursor, Received: f.received(),
		NewInstance: before != "" && before != outcome.Cursor.GetInstanceId(),
	}
	if f.started {
		f.upstream.board.ApplyDesired(false, p)
		return nil
	}
	for _, u := range r.Updates {
		if err := f.size.add(u); err != nil {
			return err
		}
	}
	f.initial = append(f.initial, p)
	if r.Synced != nil {
		f.begin(ctx, outcome.Cursor)
	}
	return nil
}

// begin applies the initial state, after the revisions of the history that lead to it.
func (f *desiredFollower) begin(ctx context.Context, cursor *podconfigv1.Cursor) {
	b := f.upstream.board
	b.Timeline.BeginsBecause("podconfigd keeps no earlier revisions", timestamppb.New(f.received()))
	past, err := f.history(ctx, cursor)
	if err != nil {
		b.Timeline.BeginsBecause("podconfigd's earlier revisions can't be read: "+err.Error(), timestamppb.New(f.received()))
	}
	if len(past) == 0 {
		b.ApplyDesired(true, f.initial...)
	} else {
		b.Start(f.initial...)
		b.AddHistory(past)
	}
	f.started, f.initial = true, nil
}
