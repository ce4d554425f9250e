package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/mergesvc/catchup"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// The bounds of a subscription.
const (
	defaultHeartbeat = 30 * time.Second
	minHeartbeat     = time.Second
	maxConsumerName  = 253
)

// subscription is a WatchPodUpdatesRequest that has been understood.
type subscription struct {
	consumer  string
	format    podconfigv1.PodFormat
	view      string
	resume    *podconfigv1.Cursor
	known     []catchup.Known
	heartbeat time.Duration
}

func newSubscription(ctx context.Context, req *podconfigv1.WatchPodUpdatesRequest) (*subscription, error) {
	if len(req.GetConsumer()) > maxConsumerName {
		return nil, status.Errorf(codes.InvalidArgument, "consumer: is %d bytes long; at most %d are allowed",
			len(req.GetConsumer()), maxConsumerName)
	}
	mode := req.GetMode()
	switch mode {
	case podconfigv1.NotificationMode_NOTIFICATION_MODE_UNSPECIFIED:
		mode = podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL
	case podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL:
	case podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT_AND_UPDATES,
		podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT:
		return nil, status.Errorf(codes.Unimplemented, "mode: %s isn't served by this version", mode)
	default:
		return nil, status.Errorf(codes.InvalidArgument, "mode: %d isn't known", mode)
	}
	if err := checkFormat(req.GetFormat()); err != nil {
		return nil, err
	}
	if proto.Size(req.GetFilter()) > 0 {
		return nil, status.Error(codes.Unimplemented, "filter: isn't served on the stream by this version")
	}
	heartbeat := defaultHeartbeat
	if d := req.GetHeartbeatInterval(); d != nil && d.AsDuration() != 0 {
		if err := d.CheckValid(); err != nil || d.AsDuration() < 0 {
			return nil, status.Errorf(codes.InvalidArgument, "heartbeat_interval: %v isn't a length of time", d)
		}
		heartbeat = max(d.AsDuration(), minHeartbeat)
	}
	sub := &subscription{
		consumer: req.GetConsumer(), format: req.GetFormat(), view: view(mode), resume: req.GetResumeAfter(), heartbeat: heartbeat,
	}
	if sub.consumer == "" {
		if p, ok := peer.FromContext(ctx); ok {
			sub.consumer = p.Addr.String()
		}
	}
	for i, k := range req.GetKnownPods() {
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

func checkFormat(format podconfigv1.PodFormat) error {
	if _, ok := podconfigv1.PodFormat_name[int32(format)]; !ok {
		return status.Errorf(codes.InvalidArgument, "format: %d isn't known", format)
	}
	return nil
}

// view is the hash that cursors carry: of all that decides which ops a consumer gets.
func view(mode podconfigv1.NotificationMode) string {
	sum := sha256.Sum256([]byte(mode.String()))
	return hex.EncodeToString(sum[:8])
}
