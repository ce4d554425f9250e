package relay

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/podstream/podstream/client/stream"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/sources"
	"github.com/podstream/podstream/internal/sources/reason"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// noObjectsInterval is how often objects are requested from an upstream that has none to give, or not to this relay.
const noObjectsInterval = time.Minute

// RunObjects follows the objects that the relayed pods refer to, until ctx ends, and then returns nil. The upstream
// sends all of them; those that aren't wanted yet are kept. If several of the upstream's sources have an object with
// one key, the first one in its order of priority counts. While the upstream can't be read, or doesn't give objects
// to this relay, out isn't called.
func (s *Source) RunObjects(
	ctx context.Context, wanted <-chan []sources.ObjectKey, out func(sources.ObjectKey, *manifest.Object),
) error {
	f := &objectFollower{
		cfg: s.cfg, out: out, set: newObjectSet(s.cfg), pace: newPace(s.cfg),
		reported: map[sources.ObjectKey]string{}, unusable: map[string]bool{},
		request: &podconfigv1.WatchObjectsRequest{
			Consumer: s.cfg.Consumer, Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF, Filter: s.cfg.filter(),
			HeartbeatInterval: durationpb.New(s.cfg.Heartbeat),
		},
	}
	var readers sync.WaitGroup
	defer readers.Wait()
	// One stream after the other: stop ends the current one, heard has what it received; due is when the next one
	// starts.
	heard, stop := f.open(ctx, &readers)
	//nolint:gocritic // It is the stop of then that is called, not the one of now.
	defer func() { stop() }()
	var due <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case keys, ok := <-wanted:
			if !ok {
				wanted = nil
				continue
			}
			f.want(keys)
		case <-due:
			heard, stop = f.open(ctx, &readers)
		case news := <-heard:
			if err := f.take(news); err != nil {
				stop()
				heard, due = nil, s.cfg.Clock.After(f.lost(err))
			}
		}
	}
}

// objectNews is a revision, or how the stream ended.
type objectNews struct {
	revision *stream.ObjectRevision
	err      error
}

// objectFollower is the state of one RunObjects. One goroutine uses it.
type objectFollower struct {
	cfg     Config
	out     func(sources.ObjectKey, *manifest.Object)
	set     *objectSet
	pace    *pace
	request *podconfigv1.WatchObjectsRequest
	// wanted are the current keys, and reported the digests of the reported objects; empty for one that doesn't exist.
	wanted   map[sources.ObjectKey]bool
	reported map[sources.ObjectKey]string
	// failed is the reason why there is no stream, and unusable what was logged of single objects.
	failed   string
	unusable map[string]bool
}

// open reads a stream in a goroutine of readers until stop is called.
func (f *objectFollower) open(ctx context.Context, readers *sync.WaitGroup) (heard <-chan objectNews, stop func()) {
	ctx, stop = context.WithCancel(ctx)
	news, request := make(chan objectNews), f.set.held.Begin(f.request)
	readers.Go(func() { readObjects(ctx, f.cfg, request, news) })
	return news, stop
}

func (f *objectFollower) want(keys []sources.ObjectKey) {
	f.wanted = make(map[sources.ObjectKey]bool, len(keys))
	for _, key := range keys {
		f.wanted[key] = true
	}
	for key := range f.reported {
		if !f.wanted[key] {
			delete(f.reported, key)
		}
	}
	for _, key := range keys {
		f.report(key)
	}
}

// report passes a wanted object on, unless it is unchanged since the last time.
func (f *objectFollower) report(key sources.ObjectKey) {
	object, known := f.set.value(key)
	if !known || !f.wanted[key] {
		return
	}
	digest := ""
	if object != nil {
		digest = object.Digest
	}
	if last, reported := f.reported[key]; reported && last == digest {
		return
	}
	f.reported[key] = digest
	f.out(key, object)
}

// take takes a revision. An error ends the stream.
func (f *objectFollower) take(news objectNews) error {
	if news.err != nil {
		return news.err
	}
	changed, unusable, err := f.set.apply(news.revision)
	if err != nil {
		return err
	}
	for _, err := range unusable {
		if text := err.Error(); !f.unusable[text] && len(f.unusable) < f.cfg.MaxPods {
			f.unusable[text] = true
			f.cfg.Logger.Warn("an object can't be used; its previous version is kept", "error", err)
		}
	}
	for key := range changed {
		f.report(key)
	}
	if news.revision.Synced != nil {
		f.pace.good()
		if f.failed != "" {
			f.failed = ""
			f.cfg.Logger.Info("the upstream sends objects again")
		}
	}
	return nil
}

// lost logs why there is no stream, once for each reason, and returns when to try again.
func (f *objectFollower) lost(err error) time.Duration {
	if errors.Is(err, stream.ErrUnknownOp) {
		f.set.held.Anew() // prose:ok
	}
	pause := f.pace.after(err)
	switch status.Code(err) {
	case codes.Unimplemented, codes.PermissionDenied:
		pause = noObjectsInterval
	}
	err = failure{f.cfg.Endpoint, err}
	if why := reason.Of(err); why != f.failed {
		f.failed = why
		f.cfg.Logger.Warn("the upstream's ConfigMaps and Secrets can't be read; they stay as they are", "error", err)
	}
	return pause
}

// readObjects is one connection and one stream. It passes revisions on until the stream ends, and then passes the
// error, unless ctx ended it.
func readObjects(ctx context.Context, cfg Config, request *podconfigv1.WatchObjectsRequest, heard chan<- objectNews) {
	hand := func(news objectNews) {
		select {
		case heard <- news:
		case <-ctx.Done():
		}
	}
	hand(objectNews{err: streamObjects(ctx, cfg, request, func(r *stream.ObjectRevision) { hand(objectNews{revision: r}) })})
}

// streamObjects calls hand with each revision until the stream ends, and returns why it ended.
func streamObjects(ctx context.Context, cfg Config, request *podconfigv1.WatchObjectsRequest, hand func(*stream.ObjectRevision)) error {
	c, err := cfg.dial()
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	s, err := stream.OpenObjects(ctx, stream.ObjectConfig{
		API: guardedObjects{c.API(), cfg}, Request: request, Silence: cfg.silence(),
	})
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		revision, err := s.Next()
		if err != nil {
			return err
		}
		hand(revision)
	}
}

// guardedObjects is guarded for streams of objects.
type guardedObjects struct {
	podconfigv1.PodConfigServiceClient
	cfg Config
}

// WatchObjects is part of podconfig.v1.PodConfigService.
func (g guardedObjects) WatchObjects(
	ctx context.Context, req *podconfigv1.WatchObjectsRequest, opts ...grpc.CallOption,
) (grpc.ServerStreamingClient[podconfigv1.WatchObjectsResponse], error) {
	messages, err := g.PodConfigServiceClient.WatchObjects(ctx, req, opts...)
	if err != nil {
		return nil, err
	}
	return &guardedObjectStream{messages, newRation(g.cfg, "objects")}, nil
}

type guardedObjectStream struct {
	grpc.ServerStreamingClient[podconfigv1.WatchObjectsResponse]
	ration *ration
}

// Recv is part of grpc.ServerStreamingClient.
func (s *guardedObjectStream) Recv() (*podconfigv1.WatchObjectsResponse, error) {
	m, err := s.ServerStreamingClient.Recv()
	if err != nil {
		return nil, err
	}
	if err := s.ration.admit(m, len(m.GetUpdate().GetObjects())); err != nil {
		return nil, err
	}
	return m, nil
}
