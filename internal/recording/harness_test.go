package recording_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/recording"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// stepClock moves only by Step, and reports every timer.
type stepClock struct {
	*clocktesting.FakeClock
	timers chan time.Duration
}

func newStepClock() *stepClock {
	return &stepClock{FakeClock: clocktesting.NewFakeClock(start), timers: make(chan time.Duration, 100)}
}

func (c *stepClock) NewTimer(d time.Duration) clock.Timer {
	timer := c.FakeClock.NewTimer(d)
	c.timers <- d
	return timer
}

// file writes a recording to disk, and returns its path.
func file(t *testing.T, list []recording.Entry) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "r.jsonl.gz")
	if err := os.WriteFile(path, recorded(t, true, list), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// replay is a Server on a socket.
type replay struct {
	t        *testing.T
	server   *recording.Server
	endpoint string
	api      podconfigv1.PodConfigServiceClient
}

func serve(t *testing.T, cfg recording.ServerConfig) *replay {
	t.Helper()
	server, err := recording.NewServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "ps") // the path of t.TempDir() is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	podconfigv1.RegisterPodConfigServiceServer(g, server)
	served := make(chan error, 1)
	go func() { served <- g.Serve(listener) }()
	t.Cleanup(func() {
		server.Close()
		g.Stop()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	r := &replay{t: t, server: server, endpoint: "unix://" + socket}
	conn, err := grpc.NewClient(r.endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	r.api = podconfigv1.NewPodConfigServiceClient(conn)
	return r
}

// subscription is one stream that the test reads.
type subscription struct {
	t      *testing.T
	stream grpc.ServerStreamingClient[message]
}

// watch subscribes with the request, for pods in protobuf.
func (r *replay) watch(req *podconfigv1.WatchPodUpdatesRequest) *subscription {
	r.t.Helper()
	req.Format = podconfigv1.PodFormat_POD_FORMAT_PROTOBUF
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	r.t.Cleanup(cancel)
	stream, err := r.api.WatchPodUpdates(ctx, req)
	if err != nil {
		r.t.Fatal(err)
	}
	return &subscription{r.t, stream}
}

// want receives messages, and fails the test if they aren't exactly these.
func (s *subscription) want(messages ...*message) {
	s.t.Helper()
	for i, m := range messages {
		got, err := s.stream.Recv()
		if err != nil {
			s.t.Fatalf("message %d: %v", i+1, err)
		}
		if d := diff(m, got); d != "" {
			s.t.Fatalf("message %d (-want +got):\n%s", i+1, d)
		}
	}
}

func (s *subscription) wantEnd(code codes.Code) {
	s.t.Helper()
	m, err := s.stream.Recv()
	if code == codes.OK && errors.Is(err, io.EOF) {
		return
	}
	if err == nil || status.Code(err) != code {
		s.t.Fatalf("message %v, error %v; want the end of the stream with %v", m, err, code)
	}
}

func messagesOf(list []recording.Entry) []*message {
	var out []*message
	for _, e := range list {
		out = append(out, e.Message)
	}
	return out
}
