package podexecapi

import (
	"cmp"
	"context"
	"encoding/base64"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/cri/image"
	"github.com/podstream/podstream/internal/execsvc/reclaim/imagegc"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// Images are the images of the container runtime.
type Images interface {
	// List returns all images.
	List(ctx context.Context) ([]*runtimeapi.Image, error)
	// LastUsed returns when images were last found in use, by ID. The result must not be changed.
	LastUsed() map[string]time.Time
	// Request requests the pull of an image: image.Puller.Request.
	Request(name string) (*image.Request, error)
	// Prune removes unused images: imagegc.Collector.Prune.
	Prune(ctx context.Context, p imagegc.Pruning) (imagegc.Pruned, error)
}

// The limits of an image's message. An image can have thousands of names.
const (
	maxNames  = 100
	maxUsedBy = 1000
)

// maxListings is how many calls of ListImages may list the runtime's images at a time. Others wait.
const maxListings = 2

// ListImages is part of podexec.v1.PodExecService.
func (s *Server) ListImages(ctx context.Context, req *podexecv1.ListImagesRequest) (*podexecv1.ListImagesResponse, error) {
	if s.cfg.Images == nil {
		return nil, unimplemented("this podexecd lists no images")
	}
	v, err := s.view(ctx, nil)
	if err != nil {
		return nil, err
	}
	if req.GetPageSize() < 0 {
		return nil, invalidArgument("page_size: is %d", req.GetPageSize())
	}
	after, err := base64.RawURLEncoding.DecodeString(req.GetPageToken())
	if err != nil {
		return nil, invalidArgument("page_token: isn't one of podexecd's")
	}
	if !v.here {
		return &podexecv1.ListImagesResponse{}, nil
	}
	// A node may have many images, and each page lists them all.
	select {
	case s.listings <- struct{}{}:
		defer func() { <-s.listings }()
	case <-ctx.Done():
		return nil, v.runtimeError(ctx, "list the images", ctx.Err())
	}
	list, err := s.cfg.Images.List(ctx)
	if err != nil {
		return nil, v.runtimeError(ctx, "list the images", err)
	}
	uses, lastUsed := usesOf(v.pods(s.cfg.Board)), s.cfg.Images.LastUsed()
	slices.SortFunc(list, func(a, b *runtimeapi.Image) int { return cmp.Compare(imageKey(a), imageKey(b)) })
	limit := cmp.Or(int(req.GetPageSize()), defaultPageSize)
	resp := &podexecv1.ListImagesResponse{}
	size, last := 0, ""
	for _, i := range list {
		refs := uses.of(i)
		if imageKey(i) <= string(after) || !v.node && len(refs) == 0 {
			continue
		}
		m := imageMessage(i, maxNames)
		m.UsedBy = refs[:min(len(refs), maxUsedBy)]
		if at, known := lastUsed[i.GetId()]; known {
			m.LastUsedTime = timestamppb.New(at)
		}
		n := proto.Size(m)
		if len(resp.Images) == limit || size > 0 && size+n > maxPageBytes {
			resp.NextPageToken = base64.RawURLEncoding.EncodeToString([]byte(last))
			break
		}
		resp.Images, size, last = append(resp.Images, m), size+n, imageKey(i)
	}
	return resp, nil
}

// imageKey is the sort key of images. A runtime may list one for each of its handlers.
func imageKey(i *runtimeapi.Image) string {
	return i.GetId() + "\x00" + i.GetSpec().GetRuntimeHandler()
}

// imageMessage returns an image without its users, and with at most so many names of each kind.
func imageMessage(i *runtimeapi.Image, names int) *podexecv1.Image {
	return &podexecv1.Image{
		Id: valid(i.GetId()), Tags: firstNames(i.GetRepoTags(), names), Digests: firstNames(i.GetRepoDigests(), names), SizeBytes: i.GetSize(), Pinned: i.GetPinned(),
	}
}

// firstNames returns the first names, in order.
func firstNames(names []string, limit int) []string {
	var out []string
	for _, name := range slices.Sorted(slices.Values(names)) {
		if len(out) == limit {
			break
		}
		out = append(out, valid(name))
	}
	return out
}
