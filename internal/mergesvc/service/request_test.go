package service_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestRequestsThatCantBeServed: an invalid request is INVALID_ARGUMENT, a missing method UNIMPLEMENTED.
func TestRequestsThatCantBeServed(t *testing.T) {
	n := start(t, options{})
	watch := func(req *podconfigv1.WatchPodUpdatesRequest) func(context.Context) error {
		return func(ctx context.Context) error {
			s, err := n.api.WatchPodUpdates(ctx, req)
			if err == nil {
				_, err = s.Recv()
			}
			return err
		}
	}
	list := func(req *podconfigv1.ListPodsRequest) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := n.api.ListPods(ctx, req)
			return err
		}
	}
	report := func(req *podconfigv1.ReportAppliedRequest) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := n.api.ReportApplied(ctx, req)
			return err
		}
	}
	for _, tc := range []struct {
		name string
		call func(context.Context) error
		want codes.Code
	}{
		{"a watch in an unknown mode", watch(&podconfigv1.WatchPodUpdatesRequest{Mode: 99}), codes.InvalidArgument},
		{"a watch in an unknown format", watch(&podconfigv1.WatchPodUpdatesRequest{Format: 99}), codes.InvalidArgument},
		{"a consumer's name that is too long", watch(&podconfigv1.WatchPodUpdatesRequest{Consumer: strings.Repeat("x", 254)}), codes.InvalidArgument},
		{"a known pod without uid", watch(&podconfigv1.WatchPodUpdatesRequest{KnownPods: []*podconfigv1.KnownPod{{Source: "file"}}}), codes.InvalidArgument},
		{"a negative heartbeat", watch(&podconfigv1.WatchPodUpdatesRequest{HeartbeatInterval: durationpb.New(-1)}), codes.InvalidArgument},
		{"an impossible heartbeat", watch(&podconfigv1.WatchPodUpdatesRequest{HeartbeatInterval: &durationpb.Duration{Seconds: 1, Nanos: -1}}), codes.InvalidArgument},
		{"an unknown mode", watch(&podconfigv1.WatchPodUpdatesRequest{Mode: 9}), codes.InvalidArgument},
		{"a filter whose selector doesn't parse", watch(&podconfigv1.WatchPodUpdatesRequest{
			Filter: &podconfigv1.PodFilter{LabelSelector: "a=b=c"},
		}), codes.InvalidArgument},
		{"a list in an unknown format", list(&podconfigv1.ListPodsRequest{Format: 99}), codes.InvalidArgument},
		{"a negative page size", list(&podconfigv1.ListPodsRequest{PageSize: -1}), codes.InvalidArgument},
		{"a selector that doesn't parse", list(&podconfigv1.ListPodsRequest{Filter: &podconfigv1.PodFilter{LabelSelector: "a=b=c"}}), codes.InvalidArgument},
		{"GetPod in an unknown format", func(ctx context.Context) error {
			_, err := n.api.GetPod(ctx, &podconfigv1.GetPodRequest{Ref: &podconfigv1.PodRef{Uid: "u"}, Format: 99})
			return err
		}, codes.InvalidArgument},
		{"a report without a cursor", report(&podconfigv1.ReportAppliedRequest{}), codes.InvalidArgument},
		{"a report without an outcome", report(&podconfigv1.ReportAppliedRequest{Cursor: &podconfigv1.Cursor{}}), codes.InvalidArgument},
		{"a report under a name that is too long", report(&podconfigv1.ReportAppliedRequest{Consumer: strings.Repeat("x", 254)}), codes.InvalidArgument},
		{"DiffManifests", func(ctx context.Context) error {
			_, err := n.api.DiffManifests(ctx, &podconfigv1.DiffManifestsRequest{})
			return err
		}, codes.Unimplemented},
		{"WatchObjects", func(ctx context.Context) error {
			s, err := n.api.WatchObjects(ctx, &podconfigv1.WatchObjectsRequest{})
			if err == nil {
				_, err = s.Recv()
			}
			return err
		}, codes.Unimplemented},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), deadline)
			defer cancel()
			wantCode(t, tc.name, tc.call(ctx), tc.want)
		})
	}
	// An empty filter counts as none.
	n.watch(&podconfigv1.WatchPodUpdatesRequest{Filter: &podconfigv1.PodFilter{}}).want("synced")
}

// TestShutdown: a server that stops ends its streams with UNAVAILABLE, between revisions.
func TestShutdown(t *testing.T) {
	n := start(t, options{})
	live := n.watch(reference(nil))
	live.want("synced")
	n.set("file", "a: web()")
	n.stop()
	live.want("ADD file: web")
	_, err := live.Recv()
	wantCode(t, "the stream of a server that went down", err, codes.Unavailable)
	if err != nil && !strings.Contains(err.Error(), "going down") {
		t.Errorf("the stream ends with %q; want it to say that podconfigd is going down", err)
	}
}
