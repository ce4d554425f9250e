package podctl

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

func (noonClock) Now() time.Time { return podctltest.Noon }

// fakePodconfigd serves lists page by page, and to each subscription the next of its scripts.
type fakePodconfigd struct {
	podconfigv1.UnimplementedPodConfigServiceServer
	pods    []*podconfigv1.Pod
	sources []*podconfigv1.Source
	// labelled are the names of the pods that match a label selector. Nil: all pods match.
	labelled map[string][]string
	// accepts is what AcceptSource accepts, by source.
	accepts map[string]string
	// version answers GetVersion. Nil: UNIMPLEMENTED.
	version *podconfigv1.GetVersionResponse
	// scripts are sent one to a subscription; it then stays open. A subscription after the last one gets nothing.
	scripts [][]*podconfigv1.WatchPodUpdatesResponse
	// watchErr is how a stream ends after its script. Nil: it stays open. io.EOF: it ends in good order.
	watchErr error
	// requests, if not nil, gets every subscription.
	requests chan *podconfigv1.WatchPodUpdatesRequest

	mu       sync.Mutex
	aborts   int // how many second pages are still refused with ABORTED
	listings []*podconfigv1.ListPodsRequest
}

func (f *fakePodconfigd) WatchPodUpdates(req *podconfigv1.WatchPodUpdatesRequest, stream grpc.ServerStreamingServer[podconfigv1.WatchPodUpdatesResponse]) error {
	if f.requests != nil {
		f.requests <- req
	}
	f.mu.Lock()
	var script []*podconfigv1.WatchPodUpdatesResponse
	if len(f.scripts) > 0 {
		script, f.scripts = f.scripts[0], f.scripts[1:]
	}
	f.mu.Unlock()
	for _, msg := range script {
		if err := stream.Send(msg); err != nil {
			return err
		}
	}
	switch {
	case f.watchErr == nil:
		<-stream.Context().Done()
		return nil
	case errors.Is(f.watchErr, io.EOF):
		return nil
	}
	return f.watchErr
}

func (f *fakePodconfigd) ListPods(_ context.Context, req *podconfigv1.ListPodsRequest) (*podconfigv1.ListPodsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listings = append(f.listings, req)
	if req.GetPageToken() != "" && f.aborts > 0 {
		f.aborts--
		return nil, status.Error(codes.Aborted, "the revision is gone")
	}
	all := slices.DeleteFunc(slices.Clone(f.pods), func(p *podconfigv1.Pod) bool { return !inFilter(req.GetFilter(), p.GetRef()) })
	if selector := req.GetFilter().GetLabelSelector(); selector != "" && f.labelled != nil {
		all = slices.DeleteFunc(all, func(p *podconfigv1.Pod) bool { return !slices.Contains(f.labelled[selector], p.GetRef().GetName()) })
	}
	pods, next := page(all, req.GetPageToken())
	return &podconfigv1.ListPodsResponse{Pods: pods, NextPageToken: next, Revision: 7}, nil
}

// AcceptSource accepts what accepts has for the source.
func (f *fakePodconfigd) AcceptSource(_ context.Context, req *podconfigv1.AcceptSourceRequest) (*podconfigv1.AcceptSourceResponse, error) {
	if f.accepts[req.GetSource()] == "" {
		return nil, status.Errorf(codes.FailedPrecondition, "nothing of source %s is refused now", req.GetSource())
	}
	return &podconfigv1.AcceptSourceResponse{Accepted: []string{f.accepts[req.GetSource()]}}, nil
}

// ListSources returns the sources.
func (f *fakePodconfigd) ListSources(context.Context, *podconfigv1.ListSourcesRequest) (*podconfigv1.ListSourcesResponse, error) {
	return &podconfigv1.ListSourcesResponse{Sources: f.sources}, nil
}

func (f *fakePodconfigd) GetVersion(ctx context.Context, req *podconfigv1.GetVersionRequest) (*podconfigv1.GetVersionResponse, error) {
	if f.version == nil {
		return f.UnimplementedPodConfigServiceServer.GetVersion(ctx, req)
	}
	return f.version, nil
}

// fakePodexecd serves a list page by page.
type fakePodexecd struct {
	podexecv1.UnimplementedPodExecServiceServer
	pods []*podexecv1.ObservedPod
	// hang makes ListPods answer only when the client has given up.
	hang bool
}

func (f *fakePodexecd) ListPods(ctx context.Context, req *podexecv1.ListPodsRequest) (*podexecv1.ListPodsResponse, error) {
	if f.hang {
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	all := slices.DeleteFunc(slices.Clone(f.pods), func(p *podexecv1.ObservedPod) bool { return !inFilter(req.GetFilter(), p.GetRef()) })
	pods, next := page(all, req.GetPageToken())
	return &podexecv1.ListPodsResponse{Pods: pods, NextPageToken: next}, nil
}

// page cuts a list into pages of three, whose tokens are as long as their number.
func page[T any](all []T, token string) (items []T, next string) {
	const size = 3
	start := min(len(token)*size, len(all))
	end := min(start+size, len(all))
	if end < len(all) {
		next = token + "+"
	}
	return all[start:end], next
}
