package upstream_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"

	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	"github.com/podstream/podstream/internal/podctl/web/upstream"
	"github.com/podstream/podstream/internal/podctl/web/webtest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// endless are daemons whose pods have no end, and are never complete. Each pod has a name of 64 KiB.
type endless struct {
	podexecv1.UnimplementedPodExecServiceServer
	most, sent atomic.Int64
}

func (e *endless) ref() *podconfigv1.PodRef {
	name := fmt.Sprint(e.sent.Add(1), strings.Repeat("x", 64<<10))
	return &podconfigv1.PodRef{Uid: name, Namespace: "default", Name: name}
}

func (e *endless) WatchPodStatus(_ *podexecv1.WatchPodStatusRequest, out grpc.ServerStreamingServer[podexecv1.WatchPodStatusResponse]) error {
	for e.sent.Load() < e.most.Load() {
		pod := &podexecv1.ObservedPod{Ref: e.ref()}
		if err := out.Send(&podexecv1.WatchPodStatusResponse{Event: &podexecv1.WatchPodStatusResponse_Pod{Pod: pod}}); err != nil {
			return err
		}
	}
	<-out.Context().Done()
	return nil
}

// endlessDesired is podconfigd's part: each pod is a revision, and the initial state is never complete.
type endlessDesired struct {
	podconfigv1.UnimplementedPodConfigServiceServer
	*endless
}

func (e *endlessDesired) WatchPodUpdates(_ *podconfigv1.WatchPodUpdatesRequest, out grpc.ServerStreamingServer[podconfigv1.WatchPodUpdatesResponse]) error {
	for e.sent.Load() < e.most.Load() {
		ref := e.ref()
		u := &podconfigv1.PodUpdate{Op: podconfigv1.PodOperation_POD_OPERATION_ADD, Source: "file", Pods: []*podconfigv1.Pod{{Ref: ref, Source: "file"}}}
		if err := out.Send(&podconfigv1.WatchPodUpdatesResponse{
			Event:  &podconfigv1.WatchPodUpdatesResponse_Update{Update: u},
			Cursor: &podconfigv1.Cursor{InstanceId: "i", Revision: uint64(e.sent.Load())}, //nolint:gosec // It is positive.
		}); err != nil {
			return err
		}
	}
	<-out.Context().Done()
	return nil
}

// TestEndlessPods: a daemon whose pods have no end is left after a bounded number, and the page says so.
func TestEndlessPods(t *testing.T) {
	// More than the bound, and little enough for the memory of a machine that keeps all of it.
	const bound, most = 8 << 20, 1000
	desired, observed := &endlessDesired{endless: &endless{}}, &endless{}
	desired.most.Store(most)
	observed.most.Store(most)
	p := webtest.NewServer(t, "podconfigd", func(r grpc.ServiceRegistrar) { podconfigv1.RegisterPodConfigServiceServer(r, desired) })
	e := webtest.NewServer(t, "podexecd", func(r grpc.ServiceRegistrar) { podexecv1.RegisterPodExecServiceServer(r, observed) })
	f := start(t, upstream.Config{Podconfigd: p, Podexecd: e, MaxBytes: bound})
	for name, link := range map[string]interface {
		Follow(chan<- struct{}) func()
		Get() (*podwebv1.Connection, uint64)
	}{"desired": f.board.Desired, "observed": f.board.Observed} {
		changed := make(chan struct{}, 1)
		defer link.Follow(changed)()
		webtest.Await(t, "that the "+name+" pods are too many", changed, func() bool {
			c, _ := link.Get()
			return strings.Contains(c.GetText(), "more pods than podctl web keeps")
		})
	}
}
