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
	"github.com/podstream/podstream/internal/retry"
	"github.com/podstream/podstream/internal/sources"
	"github.com/podstream/podstream/internal/sources/reason"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// noObjectsInterval is how often objects are requested from an upstream that has none to give, or not to this relay.
const noObjectsInterval = time.Minute

// maxUnusable bounds how many objects that can't be used are logged.
const maxUnusable = 1000

// RunObjects follows the objects that the relayed pods refer to, until ctx ends, and then returns nil. The upstream
// sends all of them; those that aren't wanted yet are kept. If several of the upstream's sources have an object with
// one key, the first one in its order of priority counts. While the upstream can't be read, or doesn't give objects
// to this relay, out isn't called.
func (s *Source) RunObjects(
	ctx context.Context, wanted <-chan []sources.ObjectKey, out func(sources.ObjectKey, *manifest.Object),
) error {
	defer s.connection.hold()()
	f := &objectFollower{
		cfg: s.cfg, connection: s.connection, out: out, set: newObjectSet(s.cfg), pace: newPace(s.cfg), lists: stream.NewPace(),
		reported: map[sources.ObjectKey]string{}, unusable: map[string]bool{},
		request: &podconfigv1.WatchObjectsRequest{
			Consumer: s.cfg.Consumer, Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF, Filter: s.cfg.filter(),
			HeartbeatInterval: durationpb.New(s.cfg.Heartbeat),
			Kinds: []podconfigv1.ObjectKind{
				podconfigv1.ObjectKind_OBJECT_KIND_PERSISTENT_VOLUME_CLAIM, podconfigv1.ObjectKind_OBJECT_KIND_PERSISTENT_VOLUME,
				podconfigv1.ObjectKind_OBJECT_KIND_CSI_DRIVER,
			},
		},
	}
	var following sync.WaitGroup
	defer following.Wait()
	following.Go(func() { _ = retry.Run(ctx, s.cfg.Clock, f.follow, f.lost) })
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
		}
	}
}

// objectFollower is the state of one RunObjects.
type objectFollower struct {
	// The goroutine of follow uses these fields. failed is the reason why there is no stream, and unusable what was
	// logged of single objects.
	cfg        Config
	connection *connection
	pace       *pace
	lists      *stream.Pace
	request    *podconfigv1.WatchObjectsRequest
	failed     string
	unusable   map[string]bool

	// mu guards the rest. It is held while out runs, so that out isn't called concurrently.
	mu  sync.Mutex
	out func(sources.ObjectKey, *manifest.Object)
	set *objectSet
	// wanted are the current keys, and reported the digests of the reported objects; empty for one that doesn't exist.
	wanted   map[sources.ObjectKey]bool
	reported map[sources.ObjectKey]string
}

// want takes the keys that are wanted from now on, and reports their objects.
func (f *objectFollower) want(keys []sources.ObjectKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
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

// report passes a wanted object on, unless it is unchanged since the last time. The caller holds mu.
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
func (f *objectFollower) take(r *stream.ObjectRevision) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	changed, unusable, err := f.set.apply(r)
	if err != nil {
		return err
	}
	for _, err := range unusable {
		if text := err.Error(); !f.unusable[text] && len(f.unusable) < min(f.cfg.MaxPods, maxUnusable) {
			f.unusable[text] = true
			f.cfg.Logger.Warn("an object can't be used; its previous version is kept", "error", err)
		}
	}
	for key := range changed {
		f.report(key)
	}
	if r.Synced != nil {
		f.pace.good()
		if f.failed != "" {
			f.failed = ""
			f.cfg.Logger.Info("the upstream sends objects again")
		}
	}
	return nil
}

// lost logs why there is no stream, once for each reason, and returns when to try again.
func (f *objectFollower) lost(err error) (time.Duration, error) {
	// An older podconfigd refuses a request that lists an object of a kind that it doesn't know.
	if errors.Is(err, stream.ErrUnknownOp) || status.Code(err) == codes.InvalidArgument {
		f.mu.Lock()
		f.set.held.Anew() // prose:ok
		f.mu.Unlock()
	}
	pause := f.pace.after(err)
	switch status.Code(err) {
	case codes.Unimplemented, codes.PermissionDenied:
		pause = noObjectsInterval
	}
	err = failure{f.cfg.Endpoint, err}
	if why := reason.Of(err); why != f.failed {
		f.failed = why
		f.cfg.Logger.Warn("the upstream's ConfigMaps, Secrets and claims can't be read; they stay as they are", "error", err)
	}
	return pause, nil
}

// follow runs one stream.
func (f *objectFollower) follow(ctx context.Context) error {
	c, err := f.connection.open()
	if err != nil {
		return err
	}
	s, err := stream.OpenObjects(ctx, stream.ObjectConfig{
		API: guardedObjects{c.API(), f.cfg}, Request: f.begin(), Silence: f.cfg.silence(), Pace: f.lists,
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
		if err := f.take(revision); err != nil {
			return err
		}
	}
}

// begin returns the request of the next stream.
func (f *objectFollower) begin() *podconfigv1.WatchObjectsRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.set.held.Begin(f.request)
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
