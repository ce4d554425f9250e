// Package simtest serves a simulated runtime on a socket for a test, and connects to it as podexecd does. It has the
// TestMain of such tests, too.
//
// Most tests use simnode, which joins these parts. This package doesn't import simruntime: the tests of simruntime
// itself use it. Serve and Start run one goroutine; everything ends with the test.
package simtest

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	internalapi "k8s.io/cri-api/pkg/apis"
	remote "k8s.io/cri-client/pkg"
)

// callTimeout is the clients' time limit for a call.
const callTimeout = time.Minute

// Server is a simulated runtime: a simruntime.Server.
type Server interface {
	Serve(ctx context.Context, listener net.Listener) error
	Close()
}

// Serve serves the runtime on a socket in the test's directory, and closes it with the test. It returns the endpoint,
// unix:///path.
func Serve(t *testing.T, server Server) string {
	t.Helper()
	t.Cleanup(server.Close)
	endpoint, stop := Start(t, server)
	t.Cleanup(stop)
	return endpoint
}

// Start serves the runtime on a new socket until stop is called. The caller closes the runtime.
func Start(t *testing.T, server Server) (endpoint string, stop func()) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "cri.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener) }()
	return "unix://" + socket, func() {
		t.Helper()
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve the runtime: %v", err)
		}
	}
}

// Runtime connects to the runtime service at the endpoint.
func Runtime(t *testing.T, endpoint string) internalapi.RuntimeService {
	t.Helper()
	service, err := remote.NewRemoteRuntimeServiceBuilder().WithEndpoint(endpoint).WithConnectionTimeout(callTimeout).Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = service.Close(context.Background()) })
	return service
}

// Images connects to the image service at the endpoint.
func Images(t *testing.T, endpoint string) internalapi.ImageManagerService {
	t.Helper()
	service, err := remote.NewRemoteImageServiceBuilder().WithEndpoint(endpoint).WithConnectionTimeout(callTimeout).Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = service.Close(context.Background()) })
	return service
}
