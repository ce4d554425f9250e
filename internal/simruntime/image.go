package simruntime

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// imageSize is the size of every image, in bytes.
const imageSize = 4 << 20

// image is a present image. Each reference is a separate image, with an ID and digest derived from the reference.
type image struct {
	ref    string // normalized
	id     string // "sha256:…", of the configuration
	tag    string // the reference, if it has a tag; else empty
	digest string // the repository and the manifest's digest
}

func newImage(ref string) *image {
	i := &image{ref: ref, id: digest("config " + ref), tag: ref, digest: repository(ref) + "@" + digest("manifest "+ref)}
	if strings.Contains(ref, "@") {
		i.tag, i.digest = "", ref
	}
	return i
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (i *image) api() *runtimeapi.Image {
	out := &runtimeapi.Image{Id: i.id, RepoDigests: []string{i.digest}, Size: imageSize}
	if i.tag != "" {
		out.RepoTags = []string{i.tag}
	}
	return out
}

// imageStore stores the present images: pulled and imported ones. An imported image is present unless it was removed.
// It is added to the maps when it is first requested.
type imageStore struct {
	imported refSet
	removed  map[string]bool // by reference
	byRef    map[string]*image
	byID     map[string]*image // by ID, and by digest
}

func newImageStore(imported []string) imageStore {
	return imageStore{
		imported: newRefSet(imported), removed: make(map[string]bool),
		byRef: make(map[string]*image), byID: make(map[string]*image),
	}
}

// find returns the image with this ID, digest or reference, or nil if it isn't present.
func (s *imageStore) find(name string) *image {
	if i, ok := s.byID[name]; ok {
		return i
	}
	ref, err := normalize(name)
	if err != nil {
		return nil
	}
	if i, ok := s.byRef[ref]; ok {
		return i
	}
	if i, ok := s.byID[ref]; ok {
		return i
	}
	if s.imported.has(ref) && !s.removed[ref] {
		return s.add(ref)
	}
	return nil
}

// has reports whether the image is present.
func (s *imageStore) has(i *image) bool { return s.byRef[i.ref] != nil }

func (s *imageStore) add(ref string) *image {
	if i, ok := s.byRef[ref]; ok {
		return i
	}
	i := newImage(ref)
	s.byRef[ref], s.byID[i.id], s.byID[i.digest] = i, i, i
	delete(s.removed, ref)
	return i
}

func (s *imageStore) remove(i *image) {
	delete(s.byRef, i.ref)
	delete(s.byID, i.id)
	delete(s.byID, i.digest)
	s.removed[i.ref] = true
}

// ListImages returns the present images. Imported images are in the list after they have been requested by name.
func (s *imageService) ListImages(_ context.Context, req *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error) {
	return &runtimeapi.ListImagesResponse{Images: s.listImages(req.GetFilter())}, nil
}

func (s *Server) listImages(filter *runtimeapi.ImageFilter) []*runtimeapi.Image {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name := filter.GetImage().GetImage(); name != "" {
		if i := s.images.find(name); i != nil {
			return []*runtimeapi.Image{i.api()}
		}
		return nil
	}
	var out []*runtimeapi.Image
	for _, i := range s.images.byRef {
		out = append(out, i.api())
	}
	return out
}

// ImageStatus returns an image. If it isn't present, the response has no image, and there is no error.
func (s *imageService) ImageStatus(_ context.Context, req *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.images.find(req.GetImage().GetImage())
	if i == nil {
		return &runtimeapi.ImageStatusResponse{}, nil
	}
	return &runtimeapi.ImageStatusResponse{Image: i.api()}, nil
}

// PullImage adds an image from the registry, and returns its ID. It returns NotFound if the registry doesn't have it.
func (s *imageService) PullImage(ctx context.Context, req *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	ref, err := normalize(req.GetImage().GetImage())
	if err != nil {
		return nil, err
	}
	took, ok := s.registry.lookUp(ref)
	if !ok {
		return nil, notFound("failed to pull and unpack image %q: failed to resolve reference %q: %s", ref, ref, ref)
	}
	if took > 0 {
		timer := s.clock.NewTimer(took)
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-ctx.Done():
			return nil, ended(ctx.Err())
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &runtimeapi.PullImageResponse{ImageRef: s.images.add(ref).id}, nil
}

// RemoveImage removes an image. It is idempotent. Its containers keep running.
func (s *imageService) RemoveImage(_ context.Context, req *runtimeapi.RemoveImageRequest) (*runtimeapi.RemoveImageResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.images.find(req.GetImage().GetImage()); i != nil {
		s.images.remove(i)
	}
	return &runtimeapi.RemoveImageResponse{}, nil
}

// ImageFsInfo returns the images' disk usage, and with a ContainersDir the containers'. The mount points are these
// directories. The state directory exists, so that a caller can read its file system.
func (s *imageService) ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir := s.cfg.StateDir
	if dir == "" {
		dir = os.TempDir()
	}
	usage := func(dir string, files, size uint64) []*runtimeapi.FilesystemUsage {
		return []*runtimeapi.FilesystemUsage{{
			Timestamp: s.clock.Now().UnixNano(), FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: dir},
			UsedBytes: &runtimeapi.UInt64Value{Value: files * size}, InodesUsed: &runtimeapi.UInt64Value{Value: files},
		}}
	}
	info := &runtimeapi.ImageFsInfoResponse{ImageFilesystems: usage(dir, uint64(len(s.images.byRef)), imageSize)}
	if s.cfg.ContainersDir != "" {
		info.ContainerFilesystems = usage(s.cfg.ContainersDir, 0, 0)
	}
	return info, nil
}
