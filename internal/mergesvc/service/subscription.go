package service

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/mergesvc/catchup"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/view"
	"github.com/podstream/podstream/internal/redact"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// The bounds of a subscription.
const (
	defaultHeartbeat = 30 * time.Second
	minHeartbeat     = time.Second
	maxConsumerName  = 253
	// maxKnownPods is more than any node runs.
	maxKnownPods = 20_000
	// maxKnownSources is the maximum number of sources of known pods.
	maxKnownSources = 256
)

// subscription is a checked WatchPodUpdatesRequest.
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
	// filterSize and knownSize are about the memory of filter and known, in bytes.
	filterSize, knownSize int
	// ofObjects is set if it comes from a WatchObjectsRequest.
	ofObjects bool
}

func newSubscription(ctx context.Context, req *podconfigv1.WatchPodUpdatesRequest) (*subscription, error) {
	caller, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	if caller.OwnOnly() {
		return nil, permissionDenied("role %s may not watch pods: it lists them", caller.Role)
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
			return nil, invalidArgument("heartbeat_interval: %v isn't a length of time", d)
		}
		heartbeat = max(d.AsDuration(), minHeartbeat)
	}
	sub := &subscription{
		name: name, caller: caller, view: v, encoding: revision.EncodingFor(audienceOf(caller), format(req.GetFormat())),
		filter: req.GetFilter(), filterSize: view.FilterSize(req.GetFilter()), resume: req.GetResumeAfter(), heartbeat: heartbeat,
	}
	if size := proto.Size(sub.resume); size > maxCursor {
		return nil, invalidArgument("resume_after: has %d bytes; podconfigd's have %d at most", size, maxCursor)
	}
	if n := len(req.GetKnownPods()); n > maxKnownPods {
		return nil, resourceExhausted("known_pods: has %d entries; the maximum is %d; send resume_after without them, and diff the SET that comes "+
			"if it can't be honoured", n, maxKnownPods)
	}
	sources := map[string]bool{}
	for i, k := range req.GetKnownPods() {
		if sources[k.GetSource()] = true; len(sources) > maxKnownSources {
			return nil, resourceExhausted("known_pods: has more than %d sources", maxKnownSources)
		}
		if k.GetUid() == "" {
			return nil, invalidArgument("known_pods[%d].uid: is empty", i)
		}
		sub.knownSize += knownOverhead + len(k.GetUid()) + len(k.GetSource()) + len(k.GetNamespace()) + len(k.GetName()) +
			len(k.GetSpecDigest()) + len(k.GetStatusDigest())
		sub.known = append(sub.known, catchup.Known{
			UID: types.UID(k.GetUid()), Source: k.GetSource(), Namespace: k.GetNamespace(), Name: k.GetName(),
			SpecDigest: k.GetSpecDigest(), StatusDigest: k.GetStatusDigest(),
		})
	}
	return sub, nil
}

// callerOf returns the caller. It returns an error if package access hasn't set one: without a role there is no data.
func callerOf(ctx context.Context) (access.Caller, error) {
	caller, ok := access.FromContext(ctx)
	if !ok || caller.Role == access.None {
		return access.Caller{}, permissionDenied("the caller has no role")
	}
	return caller, nil
}

// audienceOf is the Audience of the caller's role.
func audienceOf(caller access.Caller) redact.Audience { return redact.AudienceOf(caller.Role) }

// viewOf is the view of a caller.
func viewOf(caller access.Caller, mode podconfigv1.NotificationMode, filter *podconfigv1.PodFilter) (*view.View, error) {
	cfg := view.Config{
		Mode: mode, Filter: filter, Nodes: caller.Nodes, Sources: caller.Sources, Redacted: !audienceOf(caller).Whole(),
	}
	if caller.OwnOnly() {
		cfg.Owner = caller.Identity
	}
	v, err := view.New(cfg)
	if err != nil {
		return nil, invalidArgument("%v", err)
	}
	return v, nil
}

func checkFormat(format podconfigv1.PodFormat) error {
	if _, ok := podconfigv1.PodFormat_name[int32(format)]; !ok {
		return invalidArgument("format: %d isn't known", format)
	}
	return nil
}

// format maps unspecified to JSON.
func format(f podconfigv1.PodFormat) podconfigv1.PodFormat {
	if f == podconfigv1.PodFormat_POD_FORMAT_UNSPECIFIED {
		return podconfigv1.PodFormat_POD_FORMAT_JSON
	}
	return f
}
