package podctl

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// imagePodexecd is a podexecd with images and stats.
type imagePodexecd struct {
	podexecv1.UnimplementedPodExecServiceServer
	images []*podexecv1.Image
	// pulls are the messages of a pull, and pullErr is its end.
	pulls   []*podexecv1.PullImageResponse
	pullErr error
	// prune answers PruneImages.
	prune func(*podexecv1.PruneImagesRequest) (*podexecv1.PruneImagesResponse, error)
	// stats are the answers of GetStats, one after the other; the last one is repeated.
	stats []*podexecv1.GetStatsResponse

	mu     sync.Mutex
	asked  []*podexecv1.GetStatsRequest
	pulled string
	// left is set when the caller of a pull has left.
	left bool
}

func (n *node) withImages(f *imagePodexecd) {
	n.t.Helper()
	n.serve("podexecd", func(s *grpc.Server) { podexecv1.RegisterPodExecServiceServer(s, f) })
}

func (f *imagePodexecd) ListImages(_ context.Context, req *podexecv1.ListImagesRequest) (*podexecv1.ListImagesResponse, error) {
	images, next := page(f.images, req.GetPageToken())
	return &podexecv1.ListImagesResponse{Images: images, NextPageToken: next}, nil
}

func (f *imagePodexecd) PullImage(req *podexecv1.PullImageRequest, stream grpc.ServerStreamingServer[podexecv1.PullImageResponse]) error {
	f.mu.Lock()
	f.pulled = req.GetImage()
	f.mu.Unlock()
	for _, m := range f.pulls {
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	if len(f.pulls) > 0 && f.pulls[len(f.pulls)-1].GetPulled() == nil && f.pullErr == nil {
		<-stream.Context().Done()
		f.mu.Lock()
		defer f.mu.Unlock()
		f.left = true
	}
	return f.pullErr
}

func (f *imagePodexecd) PruneImages(_ context.Context, req *podexecv1.PruneImagesRequest) (*podexecv1.PruneImagesResponse, error) {
	return f.prune(req)
}

func (f *imagePodexecd) GetStats(_ context.Context, req *podexecv1.GetStatsRequest) (*podexecv1.GetStatsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, req)
	if len(f.stats) == 0 {
		return nil, status.Error(codes.FailedPrecondition, "the container runtime doesn't answer yet")
	}
	now := f.stats[0]
	if len(f.stats) > 1 {
		f.stats = f.stats[1:]
	}
	out := &podexecv1.GetStatsResponse{Node: now.GetNode()}
	for _, p := range now.GetPods() {
		if inFilter(req.GetFilter(), p.GetRef()) {
			out.Pods = append(out.Pods, p)
		}
	}
	return out, nil
}

// usedBy is the reference of a pod of the namespace default.
func usedBy(name string) *podconfigv1.PodRef {
	return &podconfigv1.PodRef{Namespace: "default", Name: name, Uid: name}
}
