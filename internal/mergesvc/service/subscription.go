package service

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/mergesvc/catchup"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/view"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// The bounds of a subscription.
const (
	defaultHeartbeat = 30 * time.Second
	minHeartbeat     = time.Second
	maxConsumerName  = 253
	// maxKnownPods is more than any node runs.
	maxKnownPods = 20_000
	// maxKnownSources is of how many sources they may be.
	maxKnownSources = 256
)

// subscription is a WatchPodUpdatesRequest that has been understood.
type subscription struct {
	name     string
	caller   access.Caller
	view     *view.View
	encoding revision.Encoding
	filter   *podconfigv1.PodFilter
	resume   *podconfigv1.Cursor
	// known are the known_pods; nil once the stream has begun.
	known     []catchup.Known
	heartbeat time.Duration
	// ofObjects is set if it is made of a WatchObjectsRequest.
	ofObjects bool
}

func newSubscription(ctx context.Context, req *podconfigv1.WatchPodUpdatesRequest) (*subscription, error) {
	caller, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	name, err := consumerName(req.GetConsumer(), caller)
	if err != nil {
		return nil, err
	}
	v, err := viewOf(caller, req.GetMode(), req.GetFilter())
	if err != nil {
		return nil, err
	}
	if err := checkFormat(req.GetFormat()); err != nil {
		return nil, err
	}
	heartbeat := defaultHeartbeat
	if d := req.GetHeartbeatInterval(); d != nil && d.AsDuration() != 0 {
		if err := d.CheckValid(); err != nil || d.AsDuration() < 0 {
			return nil, status.Errorf(codes.InvalidArgument, "heartbeat_interval: %v isn't a length of time", d)
		}
		heartbeat = max(d.AsDuration(), minHeartbeat)
	}
	sub := &subscription{
		name: name, caller: caller, view: v, encoding: revision.Encoding{Format: format(req.GetFormat()), Redacted: v.Redacted()},
		filter: req.GetFilter(), resume: req.GetResumeAfter(), heartbeat: heartbeat,
	}
	if n := len(req.GetKnownPods()); n > maxKnownPods {
		return nil, status.Errorf(codes.ResourceExhausted,
			"known_pods: %d are more than the %d that are taken; send resume_after without them, and diff the SET that comes "+
				"if it can't be honoured", n, maxKnownPods)
	}
	sources := map[string]bool{}
	for i, k := range req.GetKnownPods() {
		if sources[k.GetSource()] = true; len(sources) > maxKnownSources {
			return nil, status.Errorf(codes.ResourceExhausted, "known_pods: they are of more than %d sources", maxKnownSources)
		}
		if k.GetUid() == "" {
			return nil, status.Errorf(codes.InvalidArgument, "known_pods[%d].uid: is empty", i)
		}
		sub.known = append(sub.known, catchup.Known{
			UID: types.UID(k.GetUid()), Source: k.GetSource(), Namespace: k.GetNamespace(), Name: k.GetName(),
			SpecDigest: k.GetSpecDigest(), StatusDigest: k.GetStatusDigest(),
		})
	}
	return sub, nil
}

// callerOf is who calls. Without a role there is no data: it must have been found out before.
func callerOf(ctx context.Context) (access.Caller, error) {
	caller, ok := access.FromContext(ctx)
	if !ok || caller.Role == access.None {
		return access.Caller{}, status.Error(codes.PermissionDenied, "the caller has no role")
	}
	return caller, nil
}

// viewOf is what a caller sees of the stream.
func viewOf(caller access.Caller, mode podconfigv1.NotificationMode, filter *podconfigv1.PodFilter) (*view.View, error) {
	v, err := view.New(view.Config{
		Mode: mode, Filter: filter, Nodes: caller.Nodes, Sources: caller.Sources, Redacted: caller.Role < access.Consumer,
	})
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return v, nil
}

func checkFormat(format podconfigv1.PodFormat) error {
	if _, ok := podconfigv1.PodFormat_name[int32(format)]; !ok {
		return status.Errorf(codes.InvalidArgument, "format: %d isn't known", format)
	}
	return nil
}

// format makes one of the two ways to ask for JSON.
func format(f podconfigv1.PodFormat) podconfigv1.PodFormat {
	if f == podconfigv1.PodFormat_POD_FORMAT_UNSPECIFIED {
		return podconfigv1.PodFormat_POD_FORMAT_JSON
	}
	return f
}
