package service

import (
	"context"
	"log/slog"

	"google.golang.org/grpc"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/mergesvc/metrics"
	"github.com/podstream/podstream/internal/mergesvc/objects"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

const (
	// maxKnownObjects is more than the pods of any node refer to.
	maxKnownObjects = 20_000
	// maxFilterNodes is more than a cluster has. Each is looked up at each revision.
	maxFilterNodes = 10_000
)

// objectWatch is one stream of WatchObjects. Like a watch it is a position, here in the history of the objects.
type objectWatch struct {
	*consumer
	server  *Server
	objects *objects.Hub
	scope   objects.Scope
	reader  *objects.Reader
	log     *slog.Logger
	out     sender
	// known are the request's known objects; nil once synced was sent.
	known []knownObject
	// hash is that of the view with the kinds.
	hash string
	// sentCursor is the revision of the last cursor that was sent.
	sentCursor uint64
	kept       *kept
	// pending are known objects that are undecided.
	pending undecidedObjects
	// sources is the readiness that was sent last, and unknown the objects that keep sources from being ready.
	sources []*podconfigv1.SourceReadiness
	unknown unknownObjects
	// lacking are the sources that lack the pods of a node of the view, and nodesSeen is the count of Server.nodes before that
	// was found.
	lacking   map[string]bool
	nodesSeen uint64
}

// knownObject is an object that the consumer holds. An empty digest means that the object doesn't exist.
type knownObject struct {
	ref    objects.Ref
	digest string
}

// WatchObjects is part of podconfig.v1.PodConfigService.
func (s *Server) WatchObjects(
	req *podconfigv1.WatchObjectsRequest, stream grpc.ServerStreamingServer[podconfigv1.WatchObjectsResponse],
) error {
	caller, err := callerOf(stream.Context())
	if err != nil {
		return err
	}
	slot := s.work.slotFor(stream.Context(), caller)
	if err := slot.hold(); err != nil {
		return err
	}
	defer slot.release()
	sub, known, err := newObjectSubscription(stream.Context(), req)
	if err != nil {
		return err
	}
	if s.cfg.Objects == nil {
		return unimplemented("this podconfigd has no objects beside pods")
	}
	held, err := keep(s.kept, sub, sub.knownSize)
	if err != nil {
		return err
	}
	defer held.end()
	nodesSeen := s.nodes.Load()
	lacking := s.lackingSources(sub.view)
	scope := objects.Scope{
		Nodes: nodesOf(sub.caller.Nodes, req.GetFilter().GetNodes()),
		Match: func(p *revision.Pod) bool { return !lacking[p.Source] && sub.view.Matches(p) },
		Kinds: kindsOf(req.GetKinds()),
	}
	reader := s.cfg.Objects.NewReader(scope)
	defer reader.Close()
	c, err := s.consumers.add(sub, reader)
	if err != nil {
		return err
	}
	defer s.consumers.remove(c)
	w := &objectWatch{
		consumer: c, server: s, kept: &held, objects: s.cfg.Objects, known: known, hash: sub.view.Hash() + kindsHash(scope.Kinds),
		scope: scope, reader: reader, lacking: lacking, nodesSeen: nodesSeen, log: s.lines.logger(sub.caller, sub.name),
		out: sender{stream: stream, consumer: c, slot: slot, clock: s.clock},
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	err = w.run(ctx)
	w.log.Info("consumer of objects is gone", "revision", c.at.Load(), "error", err)
	return err
}

// newObjectSubscription checks a request. Only consumers may watch objects.
func newObjectSubscription(ctx context.Context, req *podconfigv1.WatchObjectsRequest) (*subscription, []knownObject, error) {
	caller, err := callerOf(ctx)
	if err != nil {
		return nil, nil, err
	}
	if caller.Role < access.Consumer {
		return nil, nil, permissionDenied("role %s may not watch objects", caller.Role)
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
		return nil, nil, invalidArgument("filter.nodes: has %d entries; the maximum is %d", n, maxFilterNodes)
	}
	if n := len(req.GetKinds()); n > maxKinds {
		return nil, nil, invalidArgument("kinds: has %d entries; the maximum is %d", n, maxKinds)
	}
	if n := len(req.GetKnownObjects()); n > maxKnownObjects {
		return nil, nil, resourceExhausted("known_objects: has %d entries; the maximum is %d; send resume_after without them, and diff the SET that comes "+
			"if it can't be honoured", n, maxKnownObjects)
	}
	var known []knownObject
	for i, k := range req.GetKnownObjects() {
		ref := objects.RefOf(k.GetRef())
		if _, ok := podconfigv1.ObjectKind_name[int32(k.GetRef().GetKind())]; !ok || ref.Kind == 0 || ref.Name == "" {
			return nil, nil, invalidArgument("known_objects[%d].ref: has an unknown kind, or no name", i)
		}
		sub.knownSize += knownOverhead + len(ref.Namespace) + len(ref.Name) + len(ref.Source) + len(k.GetDigest())
		known = append(known, knownObject{ref, k.GetDigest()})
	}
	return sub, known, nil
}

// nodesOf is the intersection of a scope and a filter. An empty list selects all nodes; so does a nil result.
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
			// A node may be listed twice.
			delete(inScope, node)
		}
	}
	return both
}

// run serves the stream until it ends.
func (w *objectWatch) run(ctx context.Context) error {
	if err := w.begin(); err != nil {
		return err
	}
	clock, interval := w.server.clock, w.heartbeat
	heartbeat := clock.NewTimer(interval)
	defer heartbeat.Stop()
	fired := false
	for {
		if err := w.out.slot.hold(); err != nil {
			return err
		}
		if len(w.pending) == 0 {
			w.kept.settled()
		}
		if err := w.checkNodes(); err != nil {
			return err
		}
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
		if fired {
			fired = false
			if clock.Since(w.out.last) >= interval {
				if err := w.beat(); err != nil {
					return err
				}
			}
			heartbeat.Reset(interval - clock.Since(w.out.last))
		}
		w.out.slot.release()
		select {
		case <-more:
		case <-heartbeat.C():
			// Before the heartbeat, follow takes the consumer past the revisions that have nothing for it.
			fired = true
		case <-ctx.Done():
			if w.server.isClosing() {
				return goingDown()
			}
			return statusOf(ctx.Err())
		}
	}
}

// follow sends the next revision that has changes for the consumer. If there is none, more gets a value, or is
// closed, when there may be further ones.
func (w *objectWatch) follow() (sent bool, more <-chan struct{}, err error) {
	d, kept, more := w.reader.Next(w.at.Load())
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
		// The code below must not use the changes.
		published := d.Published
		delivered, err := w.send(operations(changes), cursor)
		if err != nil {
			return false, nil, err
		}
		if delivered {
			w.server.metrics.DeliverySeconds.Observe(w.out.last.Sub(published).Seconds())
		}
	}
	if news {
		// In one unit with the ops: otherwise the consumer could have the cursor without the readiness.
		w.sources = sources
		err = w.beat()
	}
	return true, nil, err
}

// fellBehind sends the whole state, as the revisions that the consumer missed are no longer kept.
func (w *objectWatch) fellBehind() error {
	from := w.at.Load()
	now := w.objects.Current(w.scope)
	w.log.Info("consumer of objects fell behind and is caught up", "from", from, "revision", now.Number, "how", metrics.Set)
	w.server.metrics.Catchups.WithLabelValues(metrics.Set).Inc()
	// For objects that aren't in the SET, the consumer goes by the readiness of their source: nothing is undecided
	// here any more.
	w.pending, w.sources, w.unknown = nil, nil, nil
	open := now.Open()
	if err := w.sendSet(now); err != nil || !w.synced.Load() {
		return err
	}
	w.server.metrics.Parked.WithLabelValues(metrics.FellBehind).Inc()
	return w.sendSynced(open)
}
