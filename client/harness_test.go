package client_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/podstream/podstream/client"
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

// consumer runs one Watch and passes its events on.
type consumer struct {
	t      *testing.T
	events chan client.Event
	// ended has what Watch returned.
	ended  chan error
	cancel context.CancelFunc
	client *client.Client
}

func watch(t *testing.T, p place, cfg client.Config, opts client.WatchOptions) *consumer {
	t.Helper()
	cfg.Endpoint = p.endpoint
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &consumer{t: t, events: make(chan client.Event), ended: make(chan error, 1), cancel: cancel, client: c}
	go func() {
		w.ended <- c.Watch(ctx, opts, func(ctx context.Context, e client.Event) error {
			select {
			case w.events <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		close(w.ended)
	}()
	t.Cleanup(func() {
		cancel()
		for range w.ended {
		}
		_ = c.Close()
	})
	return w
}

// want waits for the next event and compares its ops with lines like "ADD file: web db", or with the word "synced".
func (w *consumer) want(lines ...string) client.Event {
	w.t.Helper()
	select {
	case e := <-w.events:
		if got, want := words(e), strings.Join(lines, "\n"); got != want {
			w.t.Fatalf("the next event is\n%s\nwant\n%s", got, want)
		}
		return e
	case err := <-w.ended:
		w.t.Fatalf("Watch ended with %v; want the event %q", err, lines)
	case <-time.After(deadline):
		w.t.Fatalf("no event in %v; want %q", deadline, lines)
	}
	return client.Event{}
}

// wantEnd waits for the end of Watch.
func (w *consumer) wantEnd() error {
	w.t.Helper()
	select {
	case e := <-w.events:
		w.t.Fatalf("the next event is\n%s\nwant the end of Watch", words(e))
	case err := <-w.ended:
		return err
	case <-time.After(deadline):
		w.t.Fatalf("Watch goes on for %v; want its end", deadline)
	}
	return nil
}

func words(e client.Event) string {
	if e.Synced {
		return "synced"
	}
	var lines []string
	for _, c := range e.Ops {
		line := fmt.Sprintf("%s %s:", strings.TrimPrefix(c.Op.String(), "POD_OPERATION_"), c.Source)
		for _, p := range c.Pods {
			line += " " + string(p.UID)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// pods are all pods of the events, as WatchOptions take them.
func pods(events ...client.Event) []client.Pod {
	var out []client.Pod
	for _, e := range events {
		for _, c := range e.Ops {
			out = append(out, c.Pods...)
		}
	}
	return out
}
