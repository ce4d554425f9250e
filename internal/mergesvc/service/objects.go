package service

import (
	"context"
	"log/slog"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/mergesvc/metrics"
	"github.com/podstream/podstream/internal/mergesvc/objects"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

const (
	// maxKnownObjects is more than the pods of any node refer to.
	maxKnownObjects = 20_000
	// maxFilterNodes is more than a cluster has. Each is looked up at each revision.
	maxFilterNodes = 10_000
)

// objectWatch is one stream of WatchObjects. Like a watch it is a position, here in the objects' own history.
type objectWatch struct {
	*consumer
	server  *Server
	objects *objects.Hub
	scope   objects.Scope
	log     *slog.Logger
	out     sender
	// known are the request's; nil once the stream has begun.
	known []knownObject
	// told is the revision of the last cursor that was sent.
	told uint64
	// pending are known objects that nobody can tell of yet.
	pending undecidedObjects
	// sources is the readiness that the consumer was told last, and unknown what keeps those that aren't ready from it.
	sources []*podconfigv1.SourceReadiness
	unknown unknownObjects
}

// knownObject is one that the consumer holds. An empty digest: it knows that there is none.
type knownObject struct {
	ref    objects.Ref
	digest string
}

// WatchObjects is part of podconfig.v1.PodConfigService.
func (s *Server) WatchObjects(
	req *podconfigv1.WatchObjectsRequest, stream grpc.ServerStreamingServer[podconfigv1.WatchObjectsResponse],
) error {
	sub, known, err := newObjectSubscription(stream.Context(), req)
	if err != nil {
		return err
	}
	if s.cfg.Objects == nil {
		return status.Error(codes.Unimplemented, "this podconfigd has no objects beside pods")
	}
	c, err := s.consumers.add(sub, s.cfg.Objects)
	if err != nil {
		return err
	}
	defer s.consumers.remove(c)
	w := &objectWatch{
		consumer: c, server: s, objects: s.cfg.Objects, known: known,
		scope: objects.Scope{Nodes: nodesOf(sub.caller.Nodes, req.GetFilter().GetNodes()), Match: sub.view.Matches},
		log:   s.log.With("consumer", sub.name, "identity", sub.caller.Identity),
		out:   sender{stream: stream, consumer: c, clock: s.clock},
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	err = w.run(ctx)
	w.log.Info("consumer of objects is gone", "revision", c.at.Load(), "why", err)
	return err
}

// newObjectSubscription understands a request. Only consumers may ask for objects.
func newObjectSubscription(ctx context.Context, req *podconfigv1.WatchObjectsRequest) (*subscription, []knownObject, error) {
	caller, err := callerOf(ctx)
	if err != nil {
		return nil, nil, err
	}
	if caller.Role < access.Consumer {
		return nil, nil, status.Errorf(codes.PermissionDenied, "role %s may look at pods, but not at objects", caller.Role)
	}
	sub, err := newSubscription(ctx, &podconfigv1.WatchPodUpdatesRequest{
		Consumer: req.GetConsumer(), Format: req.GetFormat(), Filter: req.GetFilter(), ResumeAfter: req.GetResumeAfter(),
		HeartbeatInterval: req.GetHeartbeatInterval(),
	})
	if err != nil {
		return nil, nil, err
	}
	sub.ofObjects = true
	if n := len(req.GetFilter().GetNodes()); n > maxFilterNodes {
		return nil, nil, status.Errorf(codes.InvalidArgument, "filter.nodes: %d are more than the %d that are taken", n, maxFilterNodes)
	}
	if n := len(req.GetKnownObjects()); n > maxKnownObjects {
		return nil, nil, status.Errorf(codes.ResourceExhausted,
			"known_objects: %d are more than the %d that are taken; send resume_after without them, and diff the SET that comes "+
				"if it can't be honoured", n, maxKnownObjects)
	}
	var known []knownObject
	for i, k := range req.GetKnownObjects() {
		ref := objects.RefOf(k.GetRef())
		if _, ok := podconfigv1.ObjectKind_name[int32(k.GetRef().GetKind())]; !ok || ref.Kind == 0 || ref.Name == "" {
			return nil, nil, status.Errorf(codes.InvalidArgument, "known_objects[%d].ref: has no kind that is known, or no name", i)
		}
		known = append(known, knownObject{ref, k.GetDigest()})
	}
	return sub, known, nil
}

// nodesOf are the nodes that a filter leaves of a scope. An empty list wants all; the result does so if it is nil.
func nodesOf(scope, filter []string) []string {
	switch {
	case len(scope) == 0 && len(filter) == 0:
		return nil
	case len(scope) == 0:
		scope = filter
	case len(filter) == 0:
		filter = scope
	}
	inScope := make(map[string]bool, len(scope))
	for _, node := range scope {
		inScope[node] = true
	}
	both := []string{}
	for _, node := range filter {
		if inScope[node] {
			both = append(both, node)
			// Once is enough.
			delete(inScope, node)
		}
	}
	return both
}

// run is the life of a stream.
func (w *objectWatch) run(ctx context.Context) error {
	if err := w.begin(); err != nil {
		return err
	}
	clock, interval := w.server.clock, w.heartbeat
	heartbeat := clock.NewTimer(interval)
	defer heartbeat.Stop()
	for {
		sent, more, err := w.follow()
		if err != nil {
			return err
		}
		if sent {
			if w.server.isClosing() {
				return goingDown()
			}
			continue
		}
		select {
		case <-more:
		case <-heartbeat.C():
			if quiet := clock.Since(w.out.last); quiet < interval {
				heartbeat.Reset(interval - quiet)
				continue
			}
			if err := w.beat(); err != nil {
				return err
			}
			heartbeat.Reset(interval)
		case <-ctx.Done():
			if w.server.isClosing() {
				return goingDown()
			}
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

// follow sends the next revision that has anything for the consumer. If there is none it tells so, with a channel that is closed when
// there are more.
func (w *objectWatch) follow() (sent bool, more <-chan struct{}, err error) {
	d, kept, more := w.objects.Next(w.at.Load(), w.scope)
	if !kept {
		return true, nil, w.fellBehind()
	}
	w.at.Store(d.Number)
	if len(d.Changes) == 0 && !d.Ready {
		return false, more, nil
	}
	changes := w.pending.settle(d.Changes)
	if d.Ready {
		changes = append(w.decide(d.Pods), changes...)
	}
	sources, news := w.readinessAfter(d)
	if len(changes) > 0 {
		var cursor *podconfigv1.Cursor
		if !news {
			cursor = w.cursor()
		}
		delivered, err := w.send(operations(changes), cursor)
		if err != nil {
			return false, nil, err
		}
		if delivered {
			w.server.metrics.DeliverySeconds.Observe(w.out.last.Sub(d.Published).Seconds())
		}
	}
	if news {
		// In one unit with the ops: what the consumer makes of the readiness must not be lost where its cursor says that it has it.
		w.sources = sources
		err = w.beat()
	}
	return true, nil, err
}

// fellBehind tells a consumer all that there is, as nobody knows any more what it missed.
func (w *objectWatch) fellBehind() error {
	from := w.at.Load()
	now := w.objects.Current(w.scope)
	w.log.Info("consumer of objects fell behind and is caught up", "from", from, "revision", now.Number, "how", metrics.Set)
	w.server.metrics.Catchups.WithLabelValues(metrics.Set).Inc()
	// Of what isn't in the SET the consumer judges by the readiness of its source: nothing is open here any more.
	w.pending, w.sources, w.unknown = nil, nil, nil
	if err := w.sendSet(now); err != nil || !w.synced.Load() {
		return err
	}
	w.server.metrics.Parked.WithLabelValues(metrics.FellBehind).Inc()
	return w.sendSynced(now)
}

// beat sends a heartbeat, with a cursor if revisions have gone by that held nothing for the consumer.
func (w *objectWatch) beat() error {
	at := w.at.Load()
	resp := &podconfigv1.WatchObjectsResponse{Event: &podconfigv1.WatchObjectsResponse_Heartbeat{Heartbeat: &podconfigv1.Heartbeat{
		Revision: at, Sources: w.sources, Path: w.server.cfg.Path(),
	}}}
	if at > w.told {
		resp.Cursor = w.cursor()
	}
	if err := w.out.send(resp); err != nil || resp.Cursor == nil {
		return err
	}
	w.arrived(resp.Cursor)
	return nil
}

// cursor is the consumer's place.
func (w *objectWatch) cursor() *podconfigv1.Cursor {
	return &podconfigv1.Cursor{InstanceId: w.objects.Instance(), Revision: w.at.Load(), View: w.view.Hash()}
}

// arrived notes the cursor that the consumer has been sent.
func (w *objectWatch) arrived(cursor *podconfigv1.Cursor) {
	w.told = cursor.GetRevision()
	w.consumer.cursor.Store(cursor)
}
