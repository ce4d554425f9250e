package containerd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	contentv1 "github.com/containerd/containerd/api/services/content/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// store is containerd's content service.
type store struct {
	contentv1.UnimplementedContentServer
	statuses []*contentv1.Status
	infos    []*contentv1.Info
	blobs    map[string]string
	// endless is set if the answers of List and Read don't end.
	endless bool
	// filters are those of the last List.
	filters []string
}

func (s *store) check(ctx context.Context) error {
	headers, _ := metadata.FromIncomingContext(ctx)
	if got := headers.Get("containerd-namespace"); !slices.Equal(got, []string{"k8s.io"}) {
		return status.Errorf(codes.FailedPrecondition, "the namespace is %q", got)
	}
	return nil
}

func (s *store) ListStatuses(ctx context.Context, _ *contentv1.ListStatusesRequest) (*contentv1.ListStatusesResponse, error) {
	return &contentv1.ListStatusesResponse{Statuses: s.statuses}, s.check(ctx)
}

func (s *store) List(req *contentv1.ListContentRequest, stream contentv1.Content_ListServer) error {
	s.filters = req.GetFilters()
	for _, info := range s.infos {
		for err := stream.Send(&contentv1.ListContentResponse{Info: []*contentv1.Info{info}}); err != nil || s.endless; {
			if err != nil {
				return err
			}
			err = stream.Send(&contentv1.ListContentResponse{Info: []*contentv1.Info{info}})
		}
	}
	return s.check(stream.Context())
}

func (s *store) Info(ctx context.Context, req *contentv1.InfoRequest) (*contentv1.InfoResponse, error) {
	if _, has := s.blobs[req.GetDigest()]; !has {
		return nil, status.Error(codes.NotFound, "content not found")
	}
	return &contentv1.InfoResponse{}, s.check(ctx)
}

func (s *store) Read(req *contentv1.ReadContentRequest, stream contentv1.Content_ReadServer) error {
	data, has := s.blobs[req.GetDigest()]
	if !has {
		return status.Error(codes.NotFound, "content not found")
	}
	// In two pieces. An endless one doesn't heed the size.
	for first := true; first || s.endless; first = false {
		data := data
		if !s.endless {
			data = data[:min(int64(len(data)), req.GetSize())]
		}
		for _, piece := range []string{data[:len(data)/2], data[len(data)/2:]} {
			if err := stream.Send(&contentv1.ReadContentResponse{Data: []byte(piece)}); err != nil {
				return err
			}
		}
	}
	return s.check(stream.Context())
}

// content serves a store, or a runtime that is no containerd if it is nil.
func content(t *testing.T, s *store) *Content {
	t.Helper()
	server := grpc.NewServer()
	if s != nil {
		contentv1.RegisterContentServer(server, s)
	}
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	c, err := NewContent("unix://" + path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return c
}

// digest returns a digest that ends with the letter.
func digest(letter string) string { return "sha256:" + strings.Repeat("0", 63) + letter }

// The references are those of real pulls.
func TestIngests(t *testing.T) {
	c := content(t, &store{statuses: []*contentv1.Status{
		{Ref: "layer-" + digest("a"), Offset: 10, Total: 100}, {Ref: "config-" + digest("b"), Offset: 1}, {Ref: "unknown-" + digest("c"), Offset: 2},
		{Ref: "layer-evil-" + digest("d") + "@" + digest("e"), Offset: 3},
		{Ref: "index-sha512:" + strings.Repeat("f", 128), Offset: 4}, {Ref: "import-1234", Offset: 5}, {Ref: digest("f"), Offset: 6}, {Ref: "x" + digest("1"), Offset: 7},
	}})
	got, err := c.Ingests(t.Context())
	want := map[string]int64{digest("a"): 10, digest("b"): 1, digest("c"): 2, digest("e"): 3, "sha512:" + strings.Repeat("f", 128): 4, digest("f"): 6}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, (-want +got):\n%s", err, diff)
	}
}

// Those of one repository, used since then; also if the runtime doesn't report when it was last used.
func TestManifests(t *testing.T) {
	since := time.Unix(1000, 0)
	made := func(name, repositories string, created, updated int64, layers ...string) *contentv1.Info {
		info := &contentv1.Info{Digest: name, Labels: map[string]string{sourceLabel + "h": repositories}, CreatedAt: timestamppb.New(time.Unix(created, 0))}
		if updated > 0 {
			info.UpdatedAt = timestamppb.New(time.Unix(updated, 0))
		}
		for i, l := range layers {
			info.Labels[fmt.Sprint(childLabel, "l.", i)] = l
		}
		return info
	}
	s := &store{infos: []*contentv1.Info{
		made("pulled", "team/app", 1001, 1001), made("before", "team/app", 999, 999, "arrives"), made("again", "team/app", 1, 1000),
		made("another repository", "team/app2,app", 1001, 1001), made("in several", "lib/base,team/app", 1001, 1001),
		made("1.7", "team/app", 1001, 0), made("1.7 before", "team/app", 999, 0, "is there"), made("1.7 again", "team/app", 999, 0, "is there", "arrives"),
	}}
	got, err := content(t, s).Manifests(t.Context(), "h", "team/app", since, map[string]int64{"arrives": 0})
	if diff := cmp.Diff([]string{"pulled", "again", "in several", "1.7", "1.7 again"}, got); diff != "" || err != nil {
		t.Errorf("%v, (-want +got):\n%s", err, diff)
	}
	want := []string{
		`labels."containerd.io/distribution.source.h",labels."containerd.io/gc.ref.content.config"`,
		`labels."containerd.io/distribution.source.h",labels."containerd.io/gc.ref.content.l.0"`,
		`labels."containerd.io/distribution.source.h",labels."containerd.io/gc.ref.content.0"`,
	}
	if diff := cmp.Diff(want, s.filters); diff != "" {
		t.Errorf("filters (-want +got):\n%s", diff)
	}
}

func TestReadAndHas(t *testing.T) {
	c := content(t, &store{blobs: map[string]string{digest("a"): "twelve bytes"}})
	for limit, want := range map[int]error{11: ErrTooLarge, 12: nil} {
		data, err := c.Read(t.Context(), digest("a"), limit)
		if !errors.Is(err, want) || err == nil && string(data) != "twelve bytes" {
			t.Errorf("at most %d bytes: %q, %v; want %v", limit, data, err, want)
		}
	}
	if _, err := c.Read(t.Context(), digest("b"), 12); status.Code(err) != codes.NotFound {
		t.Errorf("a blob that isn't there: %v", err)
	}
	for name, want := range map[string]bool{digest("a"): true, digest("b"): false} {
		if has, err := c.Has(t.Context(), name); err != nil || has != want {
			t.Errorf("Has(%s): %v, %v", name, has, err)
		}
	}
}

// Answers without end are cut.
func TestEndlessContent(t *testing.T) {
	c := content(t, &store{endless: true, blobs: map[string]string{digest("a"): strings.Repeat("x", 1000)}, infos: []*contentv1.Info{{Digest: "x"}}})
	if _, err := c.Read(t.Context(), digest("a"), 1<<20); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Read: %v", err)
	}
	if _, err := c.Manifests(t.Context(), "h", "app", time.Time{}, nil); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Manifests: %v", err)
	}
	many := &store{}
	for i := range maxIngests + 10 {
		many.statuses = append(many.statuses, &contentv1.Status{Ref: fmt.Sprintf("layer-sha256:%064x", i)})
	}
	if got, err := content(t, many).Ingests(t.Context()); len(got) != maxIngests || err != nil {
		t.Errorf("%d ingests, %v; want %d", len(got), err, maxIngests)
	}
}

// Another runtime has no such service.
func TestNoContent(t *testing.T) {
	c := content(t, nil)
	_, ingests := c.Ingests(t.Context())
	_, manifests := c.Manifests(t.Context(), "h", "app", time.Time{}, nil)
	_, read := c.Read(t.Context(), digest("a"), 1)
	_, has := c.Has(t.Context(), digest("a"))
	for i, err := range []error{ingests, manifests, read, has} {
		if status.Code(err) != codes.Unimplemented {
			t.Errorf("call %d: %v; want Unimplemented", i, err)
		}
	}
}
