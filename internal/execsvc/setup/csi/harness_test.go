package csi

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/internal/execsvc/setup/plugins"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fakeDriver is a CSI driver. It answers all calls.
type fakeDriver struct {
	csipb.UnimplementedNodeServer
	// stop ends the process and removes its socket.
	stop func()

	mu       sync.Mutex
	requests []proto.Message
	// answer changes the answer to a request. Nil: it is empty.
	answer func(request proto.Message) (proto.Message, error)
	can    []csipb.NodeServiceCapability_RPC_Type
	info   *csipb.NodeGetInfoResponse
	// canErr is the error of NodeGetCapabilities.
	canErr error
	// hang has a channel for calls that wait until it is closed.
	hang chan struct{}
	// entered has a token for each call that hangs.
	entered chan struct{}
}

// handle is the unary interceptor that answers.
func (f *fakeDriver) handle(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	f.mu.Lock()
	f.requests = append(f.requests, request.(proto.Message))
	answer, hang := f.answer, f.hang
	can, canErr, node := f.can, f.canErr, f.info
	f.mu.Unlock()
	switch request.(type) {
	case *csipb.NodeGetInfoRequest:
		return node, nil
	case *csipb.NodeGetCapabilitiesRequest:
		out := &csipb.NodeGetCapabilitiesResponse{}
		for _, c := range can {
			out.Capabilities = append(out.Capabilities, &csipb.NodeServiceCapability{
				Type: &csipb.NodeServiceCapability_Rpc{Rpc: &csipb.NodeServiceCapability_RPC{Type: c}},
			})
		}
		return out, canErr
	}
	if hang != nil {
		f.entered <- struct{}{}
		<-hang
	}
	if answer != nil {
		return answer(request.(proto.Message))
	}
	switch request.(type) {
	case *csipb.NodeStageVolumeRequest:
		return &csipb.NodeStageVolumeResponse{}, nil
	case *csipb.NodeUnstageVolumeRequest:
		return &csipb.NodeUnstageVolumeResponse{}, nil
	case *csipb.NodePublishVolumeRequest:
		return &csipb.NodePublishVolumeResponse{}, nil
	case *csipb.NodeUnpublishVolumeRequest:
		return &csipb.NodeUnpublishVolumeResponse{}, nil
	}
	return handler(ctx, request)
}

// set changes the driver while it runs.
func (f *fakeDriver) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// fails makes all calls for volumes fail.
func (f *fakeDriver) fails(code codes.Code, message string) {
	f.set(func() {
		f.answer = func(proto.Message) (proto.Message, error) { return nil, status.Error(code, message) }
	})
}

// last returns the last request.
func (f *fakeDriver) last() proto.Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests[len(f.requests)-1]
}

// bench has drivers on a node.
type bench struct {
	*Drivers
	dir      string
	registry *prometheus.Registry
}

func newBench(t *testing.T, limit time.Duration) *bench {
	t.Helper()
	dir, err := os.MkdirTemp("", "csi") // t.TempDir is too long for the name of a socket.
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	registry := prometheus.NewRegistry()
	return &bench{Drivers: New(Config{CallLimit: limit, Metrics: registry}), dir: dir, registry: registry}
}

func (b *bench) listen(t *testing.T, name string) *net.UnixListener {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(b.dir, name))
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l.(*net.UnixListener)
}

// start starts a driver on a socket of that name.
func (b *bench) start(t *testing.T, name string, can ...csipb.NodeServiceCapability_RPC_Type) *fakeDriver {
	t.Helper()
	f := &fakeDriver{
		can: can, info: &csipb.NodeGetInfoResponse{NodeId: "node-1"}, entered: make(chan struct{}, 100),
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(f.handle), grpc.MaxSendMsgSize(1<<30))
	csipb.RegisterNodeServer(server, f)
	l := b.listen(t, name)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	f.stop = sync.OnceFunc(func() { server.Stop(); <-done })
	t.Cleanup(f.stop)
	return f
}

// plugin is the plugin of a socket.
func (b *bench) plugin(t *testing.T, driver, socket string, versions ...string) plugins.Plugin {
	t.Helper()
	e, err := plugins.NewEndpoint(filepath.Join(b.dir, socket), b.dir)
	must(t, err)
	return plugins.Plugin{Type: plugins.CSIPlugin, Name: driver, Endpoint: e, Versions: versions, Socket: "reg-" + socket}
}

// register registers the driver at a socket, until the test ends.
func (b *bench) register(t *testing.T, driver, socket string) (*Driver, plugins.Instance) {
	t.Helper()
	instance, err := b.Open(t.Context(), b.plugin(t, driver, socket, "1.0.0"))
	must(t, err)
	t.Cleanup(instance.Close)
	instance.Use()
	d, err := b.Get(driver)
	must(t, err)
	return d, instance
}
