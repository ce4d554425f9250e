package podexecapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/execsvc/cri/image"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	"github.com/podstream/podstream/internal/execsvc/reclaim/imagegc"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// fakeImages are the images of a node.
type fakeImages struct {
	list     []*runtimeapi.Image
	lastUsed map[string]time.Time
	puller   *image.Puller
	pruned   imagegc.Pruned
	// asked is the last request of Prune.
	asked imagegc.Pruning
	err   error
	// listing is called first in List, if it is set.
	listing func(context.Context)
}

func (f *fakeImages) List(ctx context.Context) ([]*runtimeapi.Image, error) {
	if f.listing != nil {
		f.listing(ctx)
	}
	return slices.Clone(f.list), f.err
}
func (f *fakeImages) LastUsed() map[string]time.Time { return f.lastUsed }
func (f *fakeImages) Request(name string) (*image.Request, error) {
	if f.err != nil {
		return nil, f.err
	}
	return f.puller.Request(name)
}

func (f *fakeImages) Prune(_ context.Context, p imagegc.Pruning) (imagegc.Pruned, error) {
	f.asked = p
	return f.pruned, f.err
}

// running returns a pod whose container has this image in its spec, and in its status the image with that ID.
func running(source, uid, spec, id string) podview.Pod {
	p := pod("default", uid, uid)
	p.Source = source
	p.Object = &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: spec}}}}
	p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "main", ImageID: id}}
	return p
}

func id(letter string) string { return "sha256:" + strings.Repeat(letter, 64) }

// shown returns images as "LETTER: USERS".
func shown(list []*podexecv1.Image) []string {
	var out []string
	for _, i := range list {
		var users []string
		for _, ref := range i.GetUsedBy() {
			users = append(users, ref.GetName())
		}
		out = append(out, fmt.Sprintf("%s: %s", i.GetId()[7:8], strings.Join(users, " ")))
	}
	return out
}

// An image is used by the pods whose specs or containers have it under any of its names. A caller sees the pods in its scope,
// and one that is limited to sources only the images of these.
func TestListImages(t *testing.T) {
	s := serve(
		running("file", "a", "busybox", ""), running("api", "b", "registry.example/x:1", id("b")),
		running("api", "c", "registry.example/gone:1", "registry.example/app@"+id("9")), running("file", "d", "busybox:latest", id("a")),
	)
	volume := running("api", "e", "", "")
	volume.Object.Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "data:1"}}}}
	s.cfg.Board.Set(volume)
	s.cfg.Images = &fakeImages{
		lastUsed: map[string]time.Time{id("d"): changed},
		list: []*runtimeapi.Image{
			{Id: id("d"), RepoTags: []string{"docker.io/library/old:1"}, Size: 7, Pinned: true}, {Id: id("b")},
			{Id: id("a"), RepoTags: []string{"docker.io/library/busybox:latest"}}, {Id: id("c"), RepoDigests: []string{"registry.example/app@" + id("9")}},
			{Id: id("e"), RepoTags: []string{"docker.io/library/data:1"}},
		},
	}
	for name, tc := range map[string]struct {
		caller access.Caller
		want   []string
	}{
		"all":          {access.Caller{Role: access.Inspector}, []string{"a: a d", "b: b", "c: c", "d: ", "e: e"}},
		"one source":   {access.Caller{Role: access.Operator, Sources: []string{"file"}}, []string{"a: a d"}},
		"another node": {access.Caller{Role: access.Operator, Nodes: []string{"n2"}}, nil},
	} {
		resp, err := s.ListImages(as(t, tc.caller), &podexecv1.ListImagesRequest{})
		if diff := cmp.Diff(tc.want, shown(resp.GetImages())); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	resp, err := s.ListImages(as(t, access.Caller{Role: access.Inspector}), &podexecv1.ListImagesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if d := resp.GetImages()[3]; d.GetSizeBytes() != 7 || !d.GetPinned() || d.GetTags()[0] != "docker.io/library/old:1" || !d.GetLastUsedTime().AsTime().Equal(changed) {
		t.Errorf("%v", d)
	}
	if _, err := s.ListImages(as(t, access.Caller{}), &podexecv1.ListImagesRequest{}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("without a role: %v", err)
	}
}

// However large the pages are, they have every image once.
func TestListImagesPages(t *testing.T) {
	s := serve()
	var list []*runtimeapi.Image
	for i := range 7 {
		list = append(list, &runtimeapi.Image{Id: fmt.Sprintf("sha256:%064d", i/2), Spec: &runtimeapi.ImageSpec{RuntimeHandler: fmt.Sprint(i % 2)}, Size: uint64(i)})
	}
	s.cfg.Images = &fakeImages{list: list}
	for size := int32(1); size <= 8; size++ {
		var got []uint64
		for token := ""; ; {
			resp, err := s.ListImages(as(t, access.Caller{Role: access.Inspector}), &podexecv1.ListImagesRequest{PageSize: size, PageToken: token})
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range resp.GetImages() {
				got = append(got, i.GetSizeBytes())
			}
			if token = resp.GetNextPageToken(); token == "" {
				break
			}
		}
		if diff := cmp.Diff([]uint64{0, 1, 2, 3, 4, 5, 6}, got); diff != "" {
			t.Errorf("pages of %d (-want +got):\n%s", size, diff)
		}
	}
	for _, req := range []*podexecv1.ListImagesRequest{{PageSize: -1}, {PageToken: "?"}} {
		if _, err := s.ListImages(as(t, access.Caller{Role: access.Inspector}), req); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v", req, err)
		}
	}
}

// A runtime that lies makes no response too large or unsendable.
func TestHostileImages(t *testing.T) {
	var names []string
	for i := range 3 * maxNames {
		names = append(names, fmt.Sprintf("registry.example/%s:%05d\xff", strings.Repeat("x", 200), i))
	}
	s := serve()
	f := &fakeImages{}
	for i := range 1000 {
		f.list = append(f.list, &runtimeapi.Image{Id: fmt.Sprintf("sha256:%064d", i), RepoTags: names, RepoDigests: names})
		f.pruned.Failures = append(f.pruned.Failures, imagegc.PruneFailure{Image: f.list[i], Err: errors.New(strings.Repeat("\xff", 10_000))})
	}
	f.list = append(f.list, nil)
	s.cfg.Images = f
	operator := as(t, access.Caller{Role: access.Operator})
	resp, err := s.ListImages(operator, &podexecv1.ListImagesRequest{})
	if data, encodeErr := proto.Marshal(resp); err != nil || encodeErr != nil || len(data) > maxPageBytes+100<<10 || resp.GetNextPageToken() == "" {
		t.Errorf("%d bytes, %v, %v", len(data), err, encodeErr)
	}
	f.pruned.Images = nil
	pruned, err := s.PruneImages(operator, &podexecv1.PruneImagesRequest{})
	if data, encodeErr := proto.Marshal(pruned); err != nil || encodeErr != nil || len(data) > 4<<20 {
		t.Errorf("%d bytes, %v, %v", len(data), err, encodeErr)
	}
}

// Prune gets what the caller requests, with its identity, and is for operators of the whole node.
func TestPruneImages(t *testing.T) {
	s := serve()
	f := &fakeImages{pruned: imagegc.Pruned{
		Images:   []*runtimeapi.Image{{Id: id("a"), Size: 5}},
		Failures: []imagegc.PruneFailure{{Image: &runtimeapi.Image{Id: id("b")}, Err: errors.New("in use")}}, More: true,
	}}
	s.cfg.Images = f
	operator := access.Caller{Role: access.Operator, Identity: "uid:0"}
	resp, err := s.PruneImages(as(t, operator), &podexecv1.PruneImagesRequest{DryRun: true, All: true, Ids: []string{id("a")}})
	if err != nil || resp.GetImages()[0].GetSizeBytes() != 5 || resp.GetFailures()[0].GetMessage() != "in use" || !resp.GetMore() {
		t.Errorf("%v, %v", resp, err)
	}
	if diff := cmp.Diff(imagegc.Pruning{DryRun: true, All: true, IDs: []string{id("a")}, Max: 1000, Caller: "uid:0"}, f.asked); diff != "" {
		t.Errorf("asked for (-want +got):\n%s", diff)
	}
	for name, tc := range map[string]struct {
		caller access.Caller
		req    *podexecv1.PruneImagesRequest
		err    error
		want   codes.Code
	}{
		"a consumer":        {access.Caller{Role: access.Consumer}, &podexecv1.PruneImagesRequest{}, nil, codes.PermissionDenied},
		"one source only":   {access.Caller{Role: access.Operator, Sources: []string{"file"}}, &podexecv1.PruneImagesRequest{}, nil, codes.PermissionDenied},
		"another node":      {access.Caller{Role: access.Operator, Nodes: []string{"n2"}}, &podexecv1.PruneImagesRequest{}, nil, codes.PermissionDenied},
		"too many IDs":      {operator, &podexecv1.PruneImagesRequest{Ids: make([]string, 10_001)}, nil, codes.InvalidArgument},
		"pods aren't known": {operator, &podexecv1.PruneImagesRequest{}, imagegc.ErrNotReady, codes.FailedPrecondition},
		"a list fails":      {operator, &podexecv1.PruneImagesRequest{}, errors.New("list images: no answer"), codes.FailedPrecondition},
		"no runtime yet":    {operator, &podexecv1.PruneImagesRequest{}, ErrNoRuntime, codes.FailedPrecondition},
	} {
		f.err, f.asked = tc.err, imagegc.Pruning{}
		resp, err := s.PruneImages(as(t, tc.caller), tc.req)
		if status.Code(err) != tc.want || resp != nil || tc.err != nil && !strings.Contains(err.Error(), tc.err.Error()) {
			t.Errorf("%s: %v, %v; want %v", name, resp, err, tc.want)
		}
		if tc.err == nil && f.asked.Max != 0 {
			t.Errorf("%s: Prune was called", name)
		}
	}
}

// An inspector gets no words of the runtime.
func TestListImagesFails(t *testing.T) {
	s := serve()
	s.cfg.Images = &fakeImages{err: errors.New("hunter2")}
	for role, want := range map[access.Role]bool{access.Inspector: false, access.Consumer: true} {
		_, err := s.ListImages(as(t, access.Caller{Role: role}), &podexecv1.ListImagesRequest{})
		if status.Code(err) != codes.FailedPrecondition || strings.Contains(err.Error(), "hunter2") != want {
			t.Errorf("%v: %v", role, err)
		}
	}
	gone, cancel := context.WithCancel(as(t, access.Caller{Role: access.Consumer}))
	cancel()
	if _, err := s.ListImages(gone, &podexecv1.ListImagesRequest{}); status.Code(err) != codes.Canceled {
		t.Errorf("a caller that has left: %v", err)
	}
}

// Without a backend the methods don't exist; a backend without a runtime fails.
func TestNoImages(t *testing.T) {
	for want, backend := range map[codes.Code]*Backend{codes.Unimplemented: nil, codes.FailedPrecondition: {}} {
		s := serve()
		if backend != nil {
			s.cfg.Images, s.cfg.Stats = backend, backend
		}
		operator := as(t, access.Caller{Role: access.Operator})
		_, list := s.ListImages(operator, &podexecv1.ListImagesRequest{})
		_, prune := s.PruneImages(operator, &podexecv1.PruneImagesRequest{})
		_, stats := s.GetStats(operator, &podexecv1.GetStatsRequest{})
		pull := s.PullImage(&podexecv1.PullImageRequest{Image: "a:1"}, &pullStream{ctx: operator})
		for i, err := range []error{list, prune, stats, pull} {
			if status.Code(err) != want {
				t.Errorf("call %d: %v; want %v", i, err, want)
			}
		}
	}
}
