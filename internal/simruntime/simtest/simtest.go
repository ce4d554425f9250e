// Package simtest serves a simulated runtime on a socket for a test, and connects to it as podexecd does.
//
// It is for tests of packages that use CRI. Serve runs one goroutine, which ends with the test.
package simtest

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	internalapi "k8s.io/cri-api/pkg/apis"
	remote "k8s.io/cri-client/pkg"

	"github.com/podstream/podstream/internal/simruntime"
)

// callTimeout is the clients' time limit for a call.
const callTimeout = time.Minute

// Serve serves the runtime on a socket in the test's directory until the test ends. It returns the endpoint,
// unix:///path.
func Serve(t *testing.T, server *simruntime.Server) string {
	t.Helper()
	t.Cleanup(server.Close)
	socket := filepath.Join(t.TempDir(), "cri.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve the runtime: %v", err)
		}
	})
	return "unix://" + socket
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
