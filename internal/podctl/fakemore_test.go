package podctl

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// askedPodconfigd is a fakePodconfigd that also answers about consumers and manifests.
type askedPodconfigd struct {
	*fakePodconfigd
	consumers []*podconfigv1.Consumer
	// diff is the answer to all questions about manifests. Nil: NOT_FOUND.
	diff *podconfigv1.DiffManifestsResponse
	// asked gets the questions; it must have room for them.
	asked chan *podconfigv1.DiffManifestsRequest
}

func (f *askedPodconfigd) ListConsumers(context.Context, *podconfigv1.ListConsumersRequest) (*podconfigv1.ListConsumersResponse, error) {
	return &podconfigv1.ListConsumersResponse{Consumers: f.consumers}, nil
}

func (f *askedPodconfigd) DiffManifests(
	_ context.Context, req *podconfigv1.DiffManifestsRequest,
) (*podconfigv1.DiffManifestsResponse, error) {
	if f.asked != nil {
		f.asked <- req
	}
	if f.diff == nil {
		return nil, status.Error(codes.NotFound, "no such source")
	}
	return f.diff, nil
}

// ask serves a fake that is asked more than lists and watches.
func (n *node) ask(f *askedPodconfigd) {
	n.t.Helper()
	if f.fakePodconfigd == nil {
		f.fakePodconfigd = &fakePodconfigd{}
	}
	n.serve("podconfigd", func(s *grpc.Server) { podconfigv1.RegisterPodConfigServiceServer(s, f) })
}

// said is one op of a stream that is recorded, at revision 1 and up.
func said(revision uint64, op podconfigv1.PodOperation, pods ...*podconfigv1.Pod) *podconfigv1.WatchPodUpdatesResponse {
	return &podconfigv1.WatchPodUpdatesResponse{
		Event: &podconfigv1.WatchPodUpdatesResponse_Update{Update: &podconfigv1.PodUpdate{
			Op: op, Source: "file", SourceReady: true, Pods: pods,
		}},
		Cursor: &podconfigv1.Cursor{InstanceId: "one", Revision: revision, View: "all"},
	}
}

// saidAll is a whole stream: two pods, one of which goes.
func saidAll(t *testing.T) []*podconfigv1.WatchPodUpdatesResponse {
	t.Helper()
	inStep := said(4, 0)
	inStep.Event = &podconfigv1.WatchPodUpdatesResponse_Synced{Synced: &podconfigv1.Synced{
		Sources: []*podconfigv1.SourceReadiness{{Name: "file", Ready: true}},
	}}
	return []*podconfigv1.WatchPodUpdatesResponse{
		said(4, podconfigv1.PodOperation_POD_OPERATION_ADD,
			podctltest.Desired(t, "file", podctltest.Pod("default", "db-node1")), podctltest.Desired(t, "file", podctltest.Pod("default", "web-node1"))),
		inStep,
		said(5, podconfigv1.PodOperation_POD_OPERATION_REMOVE, podctltest.Ref("file", "default", "db-node1")),
	}
}
