package podexecapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/execsvc/cri/image"
	"github.com/podstream/podstream/internal/execsvc/cri/pullprogress"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// registry pulls each image in 3 s, and reports a third of it as done each second. It records pulls that were cancelled.
type registry struct {
	internalapi.ImageManagerService
	mu        sync.Mutex
	cancelled []string
}

func (*registry) ImageStatus(_ context.Context, spec *runtimeapi.ImageSpec, _ bool) (*runtimeapi.ImageStatusResponse, error) {
	return &runtimeapi.ImageStatusResponse{Image: &runtimeapi.Image{Id: "id of " + spec.GetImage(), Size: 300}}, nil
}

func (r *registry) PullImage(
	ctx context.Context, spec *runtimeapi.ImageSpec, _ *runtimeapi.AuthConfig, _ *runtimeapi.PodSandboxConfig,
) (string, error) {
	if strings.HasPrefix(spec.GetImage(), "missing") {
		return "", status.Error(codes.NotFound, "not found\xff")
	}
	select {
	case <-time.After(2900 * time.Millisecond):
		return spec.GetImage(), nil
	case <-ctx.Done():
		r.mu.Lock()
		defer r.mu.Unlock()
		r.cancelled = append(r.cancelled, spec.GetImage())
		return "", ctx.Err()
	}
}

func (*registry) Read(_ context.Context, pulls []pullprogress.Pull) []*pullprogress.Progress {
	var out []*pullprogress.Progress
	for _, p := range pulls {
		seconds := int64(time.Since(p.Started) / time.Second)
		out = append(out, &pullprogress.Progress{DoneBytes: 100 * seconds, TotalBytes: 300, TotalLayers: 1})
	}
	return out
}

// pullStream is a caller's stream. It records the messages.
type pullStream struct {
	grpc.ServerStream
	ctx   context.Context
	began time.Time
	sent  []string
	// fail is the error of Send.
	fail error
}

func (s *pullStream) Context() context.Context { return s.ctx }

func (s *pullStream) Send(m *podexecv1.PullImageResponse) error {
	text := fmt.Sprintf("%v ", time.Since(s.began).Round(100*time.Millisecond))
	switch {
	case m.GetPulled() != nil:
		text += fmt.Sprintf("%s, %d bytes", m.GetPulled().GetId(), m.GetPulled().GetSizeBytes())
	case m.GetPull().GetStartedTime() == nil:
		text += "queued"
	case m.GetPull().GetProgress() == nil:
		text += "started"
	default:
		text += fmt.Sprintf("%d of %d", m.GetPull().GetProgress().GetDoneBytes(), m.GetPull().GetProgress().GetTotalBytes())
	}
	s.sent = append(s.sent, text)
	return s.fail
}

// pulling runs a test in a bubble, with a server of a serial Puller.
func pulling(t *testing.T, test func(t *testing.T, s *Server, r *registry, stream *pullStream)) {
	synctest.Test(t, func(t *testing.T) {
		r := &registry{}
		p := image.New(image.Config{Images: r, Progress: r, Serial: true})
		defer p.Close()
		s := serve()
		s.cfg.Images = &fakeImages{puller: p}
		ctx, cancel := context.WithCancel(as(t, access.Caller{Role: access.Operator}))
		defer cancel()
		test(t, s, r, &pullStream{ctx: ctx, began: time.Now()})
	})
}

// The caller gets the state at once, the start, the progress, and at the end the image.
func TestPullImage(t *testing.T) {
	pulling(t, func(t *testing.T, s *Server, _ *registry, stream *pullStream) {
		before := &pullStream{ctx: stream.ctx, began: time.Now()}
		var first sync.WaitGroup
		first.Go(func() {
			if err := s.PullImage(&podexecv1.PullImageRequest{Image: "other:1"}, before); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		if err := s.PullImage(&podexecv1.PullImageRequest{Image: "app:1"}, stream); err != nil {
			t.Fatal(err)
		}
		first.Wait()
		// The progress of the first is read at 1 s, 2 s, …: when it ends, the second has begun.
		want := []string{"0s queued", "2.9s started", "4s 100 of 300", "5s 200 of 300", "5.8s id of app:1, 300 bytes"}
		// At 3 s the second has made no progress, which is a change too.
		stream.sent = slices.DeleteFunc(stream.sent, func(line string) bool { return line == "3s 0 of 300" })
		if diff := cmp.Diff(want, stream.sent); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// The pull is cancelled when its caller leaves, can't be sent to, or the server closes.
func TestPullImageEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(s *Server, stream *pullStream, cancel func())
		fail error
		want codes.Code
	}{
		"the caller leaves":    {func(_ *Server, _ *pullStream, cancel func()) { cancel() }, nil, codes.Canceled},
		"the server closes":    {func(s *Server, _ *pullStream, _ func()) { s.Close() }, nil, codes.Unavailable},
		"nothing can be sent":  {func(*Server, *pullStream, func()) {}, status.Error(codes.Aborted, "no"), codes.Aborted},
		"the image is missing": {nil, nil, codes.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			pulling(t, func(t *testing.T, s *Server, r *registry, stream *pullStream) {
				ctx, cancel := context.WithCancel(stream.ctx)
				defer cancel()
				stream.ctx, stream.fail = ctx, tc.fail
				name := "app:1"
				if tc.end == nil {
					name = "missing:1"
				}
				var err error
				var call sync.WaitGroup
				call.Go(func() { err = s.PullImage(&podexecv1.PullImageRequest{Image: name}, stream) })
				synctest.Wait()
				if tc.end != nil {
					tc.end(s, stream, cancel)
				}
				call.Wait()
				synctest.Wait()
				if status.Code(err) != tc.want {
					t.Errorf("%v; want %v", err, tc.want)
				}
				// A call that fails at once may end before the runtime is called.
				if cancelled := len(r.cancelled) == 1; cancelled != (tc.end != nil) && tc.fail == nil {
					t.Errorf("cancelled: %v", r.cancelled)
				}
				if left := s.cfg.Images.(*fakeImages).puller.Pulling(); len(left) > 0 {
					t.Errorf("still requested: %v", left)
				}
			})
		})
	}
}

// What isn't pulled, and why.
func TestPullImageRefused(t *testing.T) {
	pulling(t, func(t *testing.T, s *Server, _ *registry, stream *pullStream) {
		for name, tc := range map[string]struct {
			caller access.Caller
			image  string
			err    error
			want   codes.Code
		}{
			"a consumer":      {access.Caller{Role: access.Consumer}, "a:1", nil, codes.PermissionDenied},
			"one source only": {access.Caller{Role: access.Operator, Sources: []string{"file"}}, "a:1", nil, codes.PermissionDenied},
			"another node":    {access.Caller{Role: access.Operator, Nodes: []string{"n2"}}, "a:1", nil, codes.PermissionDenied},
			"no image":        {access.Caller{Role: access.Operator}, "", nil, codes.InvalidArgument},
			"no name":         {access.Caller{Role: access.Operator}, "a b", nil, codes.InvalidArgument},
			"a path":          {access.Caller{Role: access.Operator}, "../../etc/passwd", nil, codes.InvalidArgument},
			"too many":        {access.Caller{Role: access.Operator}, "a:1", image.ErrTooManyRequests, codes.ResourceExhausted},
			"closed":          {access.Caller{Role: access.Operator}, "a:1", image.ErrClosed, codes.Unavailable},
			"another error":   {access.Caller{Role: access.Operator}, "a:1", errors.New("no\xff"), codes.FailedPrecondition},
		} {
			s.cfg.Images.(*fakeImages).err = tc.err
			call := &pullStream{ctx: access.NewContext(stream.ctx, tc.caller)}
			if err := s.PullImage(&podexecv1.PullImageRequest{Image: tc.image}, call); status.Code(err) != tc.want || len(call.sent) > 0 {
				t.Errorf("%s: %v, %v; want %v", name, err, call.sent, tc.want)
			}
		}
	})
}
