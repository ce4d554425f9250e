package service_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/grpcserver"
	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	"github.com/podstream/podstream/internal/mergesvc/service"
	"github.com/podstream/podstream/internal/mergesvc/wire"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// deadline is how long a test waits for an expected event.
const deadline = 30 * time.Second

// options configure a node. The zero value has the defaults.
type options struct {
	// revisions and tombstones are as in mergesvc.Config.
	revisions, tombstones int
	clock                 clock.WithTicker
	// hub and service change the configurations of the hub and the service. Nil changes nothing.
	hub     func(*mergesvc.Config)
	service func(*service.Config)
	// diff makes the service answer DiffManifests.
	diff bool
}

// node is a podconfigd with the sources file and api, served on a real socket, and a connection to it.
type node struct {
	t       *testing.T
	hub     *mergesvc.Hub
	svc     *service.Server
	api     podconfigv1.PodConfigServiceClient
	address string
	callers *callers
	second  int64
	// stop ends the server gracefully and waits for it.
	stop func()
}

func start(t *testing.T, o options) *node {
	t.Helper()
	hubConfig := mergesvc.Config{
		Sources:   []merge.Source{{Name: "file", Location: "/etc/manifests"}, {Name: "api"}},
		Revisions: o.revisions, Tombstones: o.tombstones,
	}
	if o.hub != nil {
		o.hub(&hubConfig)
	}
	hub := mergesvc.NewHub(hubConfig)
	config := service.Config{History: hub.History(), Sources: hub.Sources, Clock: o.clock}
	if o.diff {
		config.Preview, config.Parse = hub.Preview, parse
	}
	if o.service != nil {
		o.service(&config)
	}
	svc, callers := service.New(config), &callers{}
	server := grpcserver.New(grpcserver.Config{
		Register: func(r grpc.ServiceRegistrar) { podconfigv1.RegisterPodConfigServiceServer(r, svc) }, Closing: svc.Close,
		Codec: wire.NewCodec(), ServerOptions: callers.options(),
	})
	// t.TempDir is too long for a socket.
	dir, err := os.MkdirTemp("", "ps")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	address := "unix://" + filepath.Join(dir, "s")
	listeners, err := grpcserver.Listen([]string{address})
	if err != nil {
		t.Fatal(err)
	}
	n := &node{
		t: t, hub: hub, svc: svc, api: podconfigv1.NewPodConfigServiceClient(dial(t, address)), address: address, callers: callers,
	}
	n.stop = serve(t, server, listeners)
	return n
}

// serve runs the server until the test ends, or stop is called.
func serve(t *testing.T, server *grpcserver.Server, listeners []net.Listener) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(ctx, listeners); err != nil {
			t.Errorf("Serve ended with %v; want a graceful end", err)
		}
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	return stop
}

func dial(t *testing.T, address string, options ...grpc.DialOption) *grpc.ClientConn {
	conn, err := grpc.NewClient(address, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// set merges a set in mergetest's notation.
func (n *node) set(source, text string) {
	n.second++
	n.hub.Apply(mergetest.Set(source, n.second, text))
}

// stream is one consumer's subscription.
type stream struct {
	t      *testing.T
	cancel context.CancelFunc
	podconfigv1.PodConfigService_WatchPodUpdatesClient
}

// watch subscribes. The stream ends with the test.
func (n *node) watch(req *podconfigv1.WatchPodUpdatesRequest) *stream {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	n.t.Cleanup(cancel)
	s, err := n.api.WatchPodUpdates(ctx, req)
	if err != nil {
		n.t.Fatalf("WatchPodUpdates: %v; want a stream", err)
	}
	return &stream{t: n.t, cancel: cancel, PodConfigService_WatchPodUpdatesClient: s}
}

// reference returns a request for pods without content, with a cursor that may be nil, and known pods.
func reference(cursor *podconfigv1.Cursor, known ...*podconfigv1.KnownPod) *podconfigv1.WatchPodUpdatesRequest {
	return &podconfigv1.WatchPodUpdatesRequest{
		Format: podconfigv1.PodFormat_POD_FORMAT_REFERENCE, ResumeAfter: cursor, KnownPods: known,
	}
}

// next returns the next message.
func (s *stream) next() *podconfigv1.WatchPodUpdatesResponse {
	s.t.Helper()
	m, err := s.Recv()
	if err != nil {
		s.t.Fatalf("the stream ended with %v; want another message", err)
	}
	return m
}

// unit is what a consumer applies as a whole: all messages up to a cursor.
type unit struct {
	messages []*podconfigv1.WatchPodUpdatesResponse
	cursor   *podconfigv1.Cursor
	// synced is set if the unit reports that the initial state is complete.
	synced *podconfigv1.Synced
}

// unit reads the next unit, and checks that cursor and continued are correct.
func (s *stream) unit() unit {
	s.t.Helper()
	var u unit
	for {
		m := s.next()
		u.messages = append(u.messages, m)
		if m.GetContinued() == (m.GetCursor() != nil) {
			s.t.Fatalf("message %d of a unit has continued=%v and cursor %v; want exactly one of them (G4)",
				len(u.messages), m.GetContinued(), m.GetCursor())
		}
		if m.GetCursor() != nil {
			u.cursor, u.synced = m.GetCursor(), m.GetSynced()
			return u
		}
	}
}

// want reads the next unit and compares its ops with lines like "ADD file: web db", or the word "synced".
func (s *stream) want(lines ...string) unit {
	s.t.Helper()
	u := s.unit()
	if got, want := u.String(), strings.Join(lines, "\n"); got != want {
		s.t.Fatalf("the next unit is\n%s\nwant\n%s", got, want)
	}
	return u
}

// String returns the ops of the unit, one message on each line, pods by UID.
func (u unit) String() string {
	var lines []string
	for _, m := range u.messages {
		switch e := m.GetEvent().(type) {
		case *podconfigv1.WatchPodUpdatesResponse_Update:
			line := fmt.Sprintf("%s %s:", strings.TrimPrefix(e.Update.GetOp().String(), "POD_OPERATION_"), e.Update.GetSource())
			for _, p := range e.Update.GetPods() {
				line += " " + p.GetRef().GetUid()
			}
			lines = append(lines, line)
		case *podconfigv1.WatchPodUpdatesResponse_Synced:
			lines = append(lines, "synced")
		case *podconfigv1.WatchPodUpdatesResponse_Heartbeat:
			lines = append(lines, "heartbeat")
		default:
			lines = append(lines, fmt.Sprintf("%T", e))
		}
	}
	return strings.Join(lines, "\n")
}

// pods returns all pods of the unit.
func (u unit) pods() []*podconfigv1.Pod {
	var out []*podconfigv1.Pod
	for _, m := range u.messages {
		out = append(out, m.GetUpdate().GetPods()...)
	}
	return out
}
