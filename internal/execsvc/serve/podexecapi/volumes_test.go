package podexecapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/execsvc/setup/foreign/tree"
	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/claimvolumes"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/directory"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// pagedVolumes has pages of volumes by the name after which they begin, and reads what is imported.
type pagedVolumes struct {
	exporter
	pages map[string]page
	read  []byte
}

type page struct {
	volumes []claimvolumes.Volume
	next    string
}

func (p *pagedVolumes) List(_ context.Context, after string, limit int) ([]claimvolumes.Volume, string, error) {
	if limit < 1 || limit > tree.MaxPage {
		return nil, "", fmt.Errorf("the limit is %d", limit)
	}
	return p.pages[after].volumes, p.pages[after].next, nil
}

func (p *pagedVolumes) Import(
	_ context.Context, _ directory.Claim, _ claimvolumes.Limits, _ bool, in io.ReadCloser,
) (m tree.Moved, err error) {
	defer in.Close()
	p.read, err = io.ReadAll(in)
	return tree.Moved{Entries: 1}, err
}

// TestLargestListOfVolumes: the largest page is smaller than what a gRPC client takes by default, however many pods use each volume.
func TestLargestListOfVolumes(t *testing.T) {
	long := strings.Repeat("x", 253)
	v := claimvolumes.Volume{
		Claim: directory.Claim{Namespace: long[:63], Name: long}, Dir: tree.Dir{Problem: long + long[:47]}, Path: strings.Repeat("/", 4095),
		Users: slices.Repeat([]storage.User{{UID: types.UID(long), Pod: long[:63] + "/" + long}}, 1000),
	}
	s := New(Config{Board: boardOf(), Volumes: &pagedVolumes{pages: map[string]page{"": {volumes: slices.Repeat([]claimvolumes.Volume{v}, tree.MaxPage)}}}})
	resp, err := s.ListVolumes(access.NewContext(t.Context(), operator), &podexecv1.ListVolumesRequest{})
	if err != nil || len(resp.GetVolumes()) != tree.MaxPage {
		t.Fatalf("%d volumes, %v", len(resp.GetVolumes()), err)
	}
	const most = 4 << 20 // grpc-go's default
	if size := proto.Size(resp); size > most/2 {
		t.Errorf("a page has %d bytes; want at most half of %d", size, most)
	}
}

// TestListVolumesInPages: a page without volumes doesn't end the list, and texts of the node are valid UTF-8.
func TestListVolumesInPages(t *testing.T) {
	data := claimvolumes.Volume{
		Claim: directory.Claim{Namespace: "default", Name: "data"}, Dir: tree.Dir{Problem: "bad \xff"}, Path: "/v/\xff",
		Users: []storage.User{{UID: "u1", Pod: "default/web"}, {UID: "u2"}},
	}
	s := New(Config{Board: boardOf(), Volumes: &pagedVolumes{pages: map[string]page{"": {next: "A/\xff"}, "A/\xff": {volumes: []claimvolumes.Volume{data}}}}})
	ctx := access.NewContext(t.Context(), operator)
	first, err := s.ListVolumes(ctx, &podexecv1.ListVolumesRequest{PageSize: 1 << 30})
	if err != nil || len(first.GetVolumes()) != 0 || first.GetNextPageToken() == "" {
		t.Fatalf("%v, %v; want an empty page, and a further one", first, err)
	}
	last, err := s.ListVolumes(ctx, &podexecv1.ListVolumesRequest{PageToken: first.GetNextPageToken()})
	if err != nil || len(last.GetVolumes()) != 1 || last.GetNextPageToken() != "" {
		t.Fatalf("%v, %v; want the last page", last, err)
	}
	v := last.GetVolumes()[0]
	if v.GetProblem() != "bad \ufffd" || v.GetPath() != "/v/\ufffd" || v.SizeBytes != nil || v.GetUsedBy()[0].GetName() != "web" || v.GetUsedBy()[1].GetUid() != "u2" {
		t.Errorf("the volume is %v", v)
	}
	for _, req := range []*podexecv1.ListVolumesRequest{{PageSize: -1}, {PageToken: "!"}, {PageToken: strings.Repeat("A", 1<<20)}} {
		if _, err := s.ListVolumes(ctx, req); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%.50v: %v", req, err)
		}
	}
}

// importing is a stream of messages to ImportVolume.
type importing struct {
	grpc.ServerStream
	ctx      context.Context
	messages []*podexecv1.ImportVolumeRequest
	answer   *podexecv1.ImportVolumeResponse
}

func (i *importing) Context() context.Context { return i.ctx }

func (i *importing) Recv() (*podexecv1.ImportVolumeRequest, error) {
	if len(i.messages) == 0 {
		return nil, io.EOF
	}
	m := i.messages[0]
	i.messages = i.messages[1:]
	return m, nil
}

func (i *importing) SendAndClose(m *podexecv1.ImportVolumeResponse) error {
	i.answer = m
	return nil
}

// TestImportMessages: an archive has an end, and its messages are in order and bounded. Nothing else is imported.
func TestImportMessages(t *testing.T) {
	start := func(s *podexecv1.ImportStart) *podexecv1.ImportVolumeRequest {
		return &podexecv1.ImportVolumeRequest{Message: &podexecv1.ImportVolumeRequest_Start{Start: s}}
	}
	piece := func(n int) *podexecv1.ImportVolumeRequest {
		return &podexecv1.ImportVolumeRequest{Message: &podexecv1.ImportVolumeRequest_Data{Data: make([]byte, n)}}
	}
	first := start(&podexecv1.ImportStart{Name: "data"})
	end := &podexecv1.ImportVolumeRequest{Message: &podexecv1.ImportVolumeRequest_DataClosed{DataClosed: true}}
	for name, tc := range map[string]struct {
		messages []*podexecv1.ImportVolumeRequest
		want     error
	}{
		"whole":             {[]*podexecv1.ImportVolumeRequest{first, piece(3), {}, piece(maxPiece), end, piece(9)}, nil},
		"without its end":   {[]*podexecv1.ImportVolumeRequest{first, piece(3)}, errUnfinished},
		"without its start": {[]*podexecv1.ImportVolumeRequest{piece(3), end}, errNotStarted},
		"with two starts":   {[]*podexecv1.ImportVolumeRequest{first, first, end}, errStartedBefore},
		"with a long piece": {[]*podexecv1.ImportVolumeRequest{first, piece(maxPiece + 1), end}, errLongPiece},
		"with few bytes":    {[]*podexecv1.ImportVolumeRequest{start(&podexecv1.ImportStart{MaxBytes: -1}), end}, invalidArgument("")},
		"with many entries": {[]*podexecv1.ImportVolumeRequest{start(&podexecv1.ImportStart{MaxEntries: 1 << 62}), end}, invalidArgument("")},
	} {
		t.Run(name, func(t *testing.T) {
			v := &pagedVolumes{}
			s := New(Config{Board: boardOf(), Volumes: v})
			stream := &importing{ctx: access.NewContext(t.Context(), operator), messages: tc.messages}
			err := s.ImportVolume(stream)
			if status.Code(err) != status.Code(tc.want) || tc.want != nil && !strings.Contains(err.Error(), status.Convert(tc.want).Message()) {
				t.Errorf("%v; want %v", err, tc.want)
			}
			if (stream.answer != nil) != (tc.want == nil) {
				t.Errorf("the answer is %v", stream.answer)
			}
			if tc.want == nil && len(v.read) != maxPiece+3 {
				t.Errorf("%d bytes were read", len(v.read))
			}
			if len(s.volumeArchives) != 0 {
				t.Error("a place is still taken")
			}
		})
	}
}

// TestVolumeErrors: each error of Volumes has a code.
func TestVolumeErrors(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		ctx  context.Context
		err  error
		want codes.Code
	}{
		{t.Context(), claimvolumes.ErrName, codes.InvalidArgument},
		{t.Context(), claimvolumes.ErrRefused, codes.InvalidArgument},
		{t.Context(), claimvolumes.ErrMissing, codes.NotFound},
		{t.Context(), claimvolumes.ErrUnknown, codes.Unknown},
		{t.Context(), claimvolumes.ErrStalled, codes.DeadlineExceeded},
		{t.Context(), &storage.UsedError{Volume: "default/data"}, codes.FailedPrecondition},
		{t.Context(), errUnfinished, codes.InvalidArgument},
		{t.Context(), errors.New("bad \xff"), codes.FailedPrecondition},
		{canceled, errors.New("it ended"), codes.Canceled},
	} {
		if err := volumeError(tc.ctx, fmt.Errorf("remove it: %w", tc.err)); status.Code(err) != tc.want {
			t.Errorf("%v: %v; want %v", tc.err, err, tc.want)
		}
	}
}
