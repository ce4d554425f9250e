package podexecapi

import (
	"cmp"
	"context"
	"encoding/base64"
	"io"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/execsvc/setup/foreign/tree"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/claimvolumes"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/directory"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// The bounds of the calls on volumes. Each runs a helper, of which the file system has four.
const (
	maxArchives = 2
	maxUsers    = 20
)

// Volumes are the directories of static pods' claims: a *claimvolumes.Volumes.
type Volumes interface {
	List(ctx context.Context, after string, limit int) (all []claimvolumes.Volume, next string, err error)
	Remove(ctx context.Context, c directory.Claim) (left string, err error)
	Export(ctx context.Context, c directory.Claim, limits claimvolumes.Limits, out io.Writer) (tree.Moved, error)
	Import(ctx context.Context, c directory.Claim, limits claimvolumes.Limits, replace bool, in io.ReadCloser) (tree.Moved, error)
}

// ListVolumes is part of podexec.v1.PodExecService.
func (s *Server) ListVolumes(ctx context.Context, req *podexecv1.ListVolumesRequest) (*podexecv1.ListVolumesResponse, error) {
	if err := s.onVolumes(ctx, podexecv1.PodExecService_ListVolumes_FullMethodName); err != nil {
		return nil, err
	}
	if req.GetPageSize() < 0 {
		return nil, invalidArgument("page_size: is %d", req.GetPageSize())
	}
	after, err := base64.RawURLEncoding.DecodeString(req.GetPageToken())
	if err != nil || len(after) > maxPath {
		return nil, invalidArgument("page_token: isn't one of podexecd's")
	}
	select {
	case s.volumeLists <- struct{}{}:
		defer func() { <-s.volumeLists }()
	case <-ctx.Done():
		return nil, volumeError(ctx, ctx.Err())
	}
	limit := min(cmp.Or(int(req.GetPageSize()), tree.MaxPage), tree.MaxPage)
	volumes, next, err := s.cfg.Volumes.List(ctx, string(after), limit)
	if err != nil {
		return nil, volumeError(ctx, err)
	}
	resp := &podexecv1.ListVolumesResponse{NextPageToken: base64.RawURLEncoding.EncodeToString([]byte(next))}
	for _, v := range volumes {
		resp.Volumes = append(resp.Volumes, volumeMessage(v))
	}
	return resp, nil
}

func volumeMessage(v claimvolumes.Volume) *podexecv1.Volume {
	m := &podexecv1.Volume{
		Namespace: v.Claim.Namespace, Name: v.Claim.Name, Path: valid(v.Path), Problem: valid(v.Dir.Problem), Claimed: v.Named, Unsettled: v.Unsettled,
	}
	if !v.Dir.Created.IsZero() {
		m.CreatedTime = timestamppb.New(v.Dir.Created)
	}
	if v.Dir.Problem == "" {
		m.SizeBytes, m.Files = &v.Dir.Bytes, &v.Dir.Files
	}
	for _, u := range v.Users[:min(len(v.Users), maxUsers)] {
		namespace, name, _ := strings.Cut(u.Pod, "/")
		m.UsedBy = append(m.UsedBy, &podconfigv1.PodRef{Uid: string(u.UID), Namespace: namespace, Name: name})
	}
	return m
}

// RemoveVolume is part of podexec.v1.PodExecService.
func (s *Server) RemoveVolume(ctx context.Context, req *podexecv1.RemoveVolumeRequest) (*podexecv1.RemoveVolumeResponse, error) {
	if err := s.onVolumes(ctx, podexecv1.PodExecService_RemoveVolume_FullMethodName); err != nil {
		return nil, err
	}
	leave, err := room(s.volumeRemovals, "volume is being removed")
	if err != nil {
		return nil, err
	}
	defer leave()
	c := claimOf(req)
	s.changesVolume(ctx, "remove", c)
	left, err := s.cfg.Volumes.Remove(ctx, c)
	if err != nil {
		return nil, volumeError(ctx, err)
	}
	return &podexecv1.RemoveVolumeResponse{Left: valid(left)}, nil
}

// onVolumes returns an error unless the caller may call the method.
func (s *Server) onVolumes(ctx context.Context, fullMethod string) error {
	if s.cfg.Volumes == nil {
		return unimplemented("this podexecd has no volumes of static pods' claims")
	}
	_, err := s.nodeView(ctx, fullMethod)
	return err
}

// room takes a place for a call. leave releases it.
func room(places chan struct{}, what string) (leave func(), err error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	default:
		return nil, resourceExhausted("%d %s, and no more can be at a time", cap(places), what)
	}
}

func claimOf(req interface {
	GetNamespace() string
	GetName() string
}) directory.Claim {
	return directory.Claim{Namespace: cmp.Or(req.GetNamespace(), "default"), Name: req.GetName()}
}

// changesVolume logs that a caller acts on a volume.
func (s *Server) changesVolume(ctx context.Context, action string, c directory.Claim) {
	caller, _ := access.FromContext(ctx)
	s.log.InfoContext(ctx, "a caller acts on a volume", "action", action, "caller", caller.Identity, "volume", clip(c.String(), maxPath))
}
