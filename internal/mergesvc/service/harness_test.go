package service_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
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
	// made is called with the hub. Nil is not called.
	made func(*mergesvc.Hub)
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
	if o.made != nil {
		o.made(hub)
	}
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
