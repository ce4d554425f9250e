package upstream

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/podstream/podstream/internal/podctl/web/board"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

const (
	// listTime bounds a list.
	listTime = 10 * time.Second
	// maxList is the maximum size of a list in bytes.
	maxList = 64 << 20
)

// poll calls list once, and then again and again while a tab needs one of the topics.
func (u *Upstream) poll(ctx context.Context, d *Daemon, link *board.Link, interval time.Duration, list func(context.Context) error, topics ...string) {
	pauses := u.pauses()
	for first := true; ctx.Err() == nil; first = false {
		wanted, changed := u.board.Want.Any(topics...)
		if !wanted && !first {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		pause := interval
		if err := u.list(ctx, list); err != nil {
			if ctx.Err() != nil {
				return
			}
			pause = max(pause, u.broke(d, link, &pauses, err))
		} else {
			pauses = u.pauses()
			link.Live()
		}
		if timer := u.cfg.Clock.NewTimer(pause); true {
			select {
			case <-timer.C():
			case <-ctx.Done():
			}
			timer.Stop()
		}
	}
}

func (u *Upstream) list(ctx context.Context, list func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	return list(ctx)
}

func (u *Upstream) listSources(ctx context.Context) error {
	r, err := podconfigv1.NewPodConfigServiceClient(u.cfg.Podconfigd.Conn).ListSources(ctx, &podconfigv1.ListSourcesRequest{}, grpc.MaxCallRecvMsgSize(maxList))
	if err != nil {
		return err
	}
	u.board.ApplySources(ctx, r.GetSources())
	return nil
}

func (u *Upstream) listConsumers(ctx context.Context) error {
	r, err := podconfigv1.NewPodConfigServiceClient(u.cfg.Podconfigd.Conn).ListConsumers(ctx, &podconfigv1.ListConsumersRequest{}, grpc.MaxCallRecvMsgSize(maxList))
	if err != nil {
		return err
	}
	u.board.ApplyConsumers(r.GetConsumers())
	return nil
}

// sample adds a sample of the stats.
func (u *Upstream) sample(ctx context.Context) error {
	values, err := u.cfg.Stats(ctx)
	if err != nil {
		return err
	}
	u.board.AddStats(&podwebv1.StatsSample{Time: timestamppb.New(u.cfg.Clock.Now()), Values: values})
	return nil
}
