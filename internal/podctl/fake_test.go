package podctl

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/daemon/process"
	"github.com/podstream/podstream/internal/podctl/podctltest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// asProgram is set in the environment of the processes that tests start: these are podctl.
const asProgram = "PODSTREAM_PODCTL"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		process.Main(func(ctx context.Context) int {
			return Run(ctx, Config{Args: os.Args[1:], Stdout: os.Stdout, Stderr: os.Stderr})
		})
	}
	goleak.VerifyTestMain(m)
}

// noonClock's time is always noon; it waits in real time.
type noonClock struct{ clock.RealClock }

func (noonClock) Now() time.Time { return podctltest.Noon }

// fakePodconfigd serves lists page by page, and to each subscription the next of its scripts.
type fakePodconfigd struct {
	podconfigv1.UnimplementedPodConfigServiceServer
	pods    []*podconfigv1.Pod
	sources []*podconfigv1.Source
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
	pods, next := page(f.pods, req.GetPageToken())
	return &podconfigv1.ListPodsResponse{Pods: pods, NextPageToken: next, Revision: 7}, nil
}

func (f *fakePodconfigd) ListSources(context.Context, *podconfigv1.ListSourcesRequest) (*podconfigv1.ListSourcesResponse, error) {
	return &podconfigv1.ListSourcesResponse{Sources: f.sources}, nil
}

func (f *fakePodconfigd) GetVersion(ctx context.Context, req *podconfigv1.GetVersionRequest) (*podconfigv1.GetVersionResponse, error) {
	if f.version == nil {
		return f.UnimplementedPodConfigServiceServer.GetVersion(ctx, req)
	}
	return f.version, nil
}

// noVariables is an environment without variables.
func noVariables(string) string { return "" }

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
	pods, next := page(f.pods, req.GetPageToken())
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

// node has the fakes' sockets of one test, and podctl's output.
type node struct {
	t              *testing.T
	dir            string
	stdout, stderr *screen
	// silence is Config.Silence.
	silence time.Duration
}

func newNode(t *testing.T) *node {
	t.Helper()
	dir, err := os.MkdirTemp("", "podctl") // t.TempDir is too long for a socket's name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return &node{t: t, dir: dir, stdout: newScreen(), stderr: newScreen()}
}

func (n *node) socket(daemon string) string { return filepath.Join(n.dir, daemon+".sock") }

// serve runs a fake until the test ends or the returned function stops it.
func (n *node) serve(daemon string, register func(*grpc.Server)) (stop func()) {
	n.t.Helper()
	listener, err := net.Listen("unix", n.socket(daemon))
	if err != nil {
		n.t.Fatal(err)
	}
	server := grpc.NewServer()
	register(server)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	stop = func() { server.Stop(); <-done }
	n.t.Cleanup(stop)
	return stop
}

func (n *node) podconfigd(f *fakePodconfigd) (stop func()) {
	n.t.Helper()
	return n.serve("podconfigd", func(s *grpc.Server) { podconfigv1.RegisterPodConfigServiceServer(s, f) })
}

func (n *node) podexecd(f *fakePodexecd) (stop func()) {
	n.t.Helper()
	return n.serve("podexecd", func(s *grpc.Server) { podexecv1.RegisterPodExecServiceServer(s, f) })
}

// run runs podctl to its end.
func (n *node) run(ctx context.Context, args ...string) (code int) {
	args = append([]string{
		"--podconfig-endpoint=unix://" + n.socket("podconfigd"),
		"--podexec-endpoint=unix://" + n.socket("podexecd"),
	}, args...)
	return Run(ctx, Config{
		Args: args, Stdout: n.stdout, Stderr: n.stderr,
		Clock: noonClock{}, Hostname: "node1", ReconnectDelay: time.Millisecond, Silence: n.silence,
		Version: "v1.2.3", Getenv: noVariables,
	})
}

// start runs podctl beside the test; the returned function is Ctrl-C and returns the exit code.
func (n *node) start(args ...string) (interrupt func() int) {
	ctx, cancel := context.WithCancel(context.Background())
	code := make(chan int, 1)
	go func() { code <- n.run(ctx, args...) }()
	interrupt = sync.OnceValue(func() int {
		cancel()
		return <-code
	})
	n.t.Cleanup(func() { interrupt() })
	return interrupt
}

// golden compares text with a file in testdata.
func (n *node) golden(name, text string) {
	n.t.Helper()
	text = strings.ReplaceAll(text, n.dir, "/run")
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			n.t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		n.t.Fatalf("%v (go test -update writes it)", err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		n.t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// screen is a writer that can be waited for.
type screen struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{} // closed and replaced at every write
}

func newScreen() *screen { return &screen{changed: make(chan struct{})} }

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// await returns once text is on the screen.
func (s *screen) await(t *testing.T, text string) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		s.mu.Lock()
		found, changed := strings.Contains(s.text.String(), text), s.changed
		s.mu.Unlock()
		if found {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("%q never came; there is:\n%s", text, s)
		}
	}
}
