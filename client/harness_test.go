package client_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/podstream/podstream/internal/grpcserver"
	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	"github.com/podstream/podstream/internal/mergesvc/service"
	"github.com/podstream/podstream/internal/mergesvc/wire"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// deadline is the time limit of a test for an expected event.
const deadline = 30 * time.Second

// place is an address at which one podconfigd after the other listens.
type place struct{ dir, endpoint string }

func newPlace() (place, error) {
	// A test's own directory is too long for a socket.
	dir, err := os.MkdirTemp("", "ps")
	return place{dir, "unix://" + filepath.Join(dir, "s")}, err
}

func (p place) remove() { _ = os.RemoveAll(p.dir) }

// serve serves at the place until stop is called, which waits for the end.
func (p place) serve(api podconfigv1.PodConfigServiceServer, closing func()) (stop func(), err error) {
	listeners, err := grpcserver.Listen([]string{p.endpoint})
	if err != nil {
		return nil, err
	}
	server := grpcserver.New(grpcserver.Config{
		Register: func(r grpc.ServiceRegistrar) { podconfigv1.RegisterPodConfigServiceServer(r, api) }, Closing: closing,
		ServerOptions: []grpc.ServerOption{grpc.ForceServerCodecV2(wire.NewCodec())},
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- server.Serve(ctx, listeners) }()
	return func() {
		cancel()
		<-ended
	}, nil
}

// daemon is a podconfigd with the sources file and api; hub outlives its servers.
type daemon struct {
	hub    *mergesvc.Hub
	second int64
}

func newDaemon() *daemon {
	return &daemon{hub: mergesvc.NewHub(mergesvc.Config{Sources: []merge.Source{{Name: "file"}, {Name: "api"}}})}
}

func (d *daemon) set(source, text string) {
	d.second++
	d.hub.Apply(mergetest.Set(source, d.second, text))
}

func (d *daemon) serve(p place) (stop func(), err error) {
	svc := service.New(service.Config{History: d.hub.History(), Sources: d.hub.Sources})
	return p.serve(svc, svc.Close)
}

// testPlace is a place that ends with the test.
func testPlace(t *testing.T) place {
	t.Helper()
	p, err := newPlace()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.remove)
	return p
}

// up serves the daemon until the test ends, or stop is called.
func up(t *testing.T, p place, d interface {
	serve(place) (func(), error)
}) (stop func()) {
	t.Helper()
	end, err := d.serve(p)
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(end)
	t.Cleanup(stop)
	return stop
}
