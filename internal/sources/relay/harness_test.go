package relay

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/grpcserver"
	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	objecthub "github.com/podstream/podstream/internal/mergesvc/objects"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/service"
	"github.com/podstream/podstream/internal/mergesvc/store"
	"github.com/podstream/podstream/internal/mergesvc/wire"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// deadline is how long a test waits for an expected event.
const deadline = 30 * time.Second

// quick is a Backoff for tests.
var quick = Backoff{Min: time.Millisecond, Max: 20 * time.Millisecond}

// podconfigd is a hub with its service, on one socket.
type podconfigd struct {
	t        *testing.T
	id, node string
	endpoint string
	hub      *mergesvc.Hub
	second   int64
	// relays are the relay sources. Their paths are part of its own path.
	mu     sync.Mutex
	relays []*Source
	// requests and wishes record the requests that it received.
	requests chan *podconfigv1.WatchPodUpdatesRequest
	wishes   chan *podconfigv1.WatchObjectsRequest
	// objects is nil unless it serves objects.
	objects *objecthub.Hub
	// down stops its service, and kill all of it; both wait for the end.
	down, kill func()
	// at is the last revision that a test has seen.
	at uint64
}

// socket returns a path for a socket.
func socket(t *testing.T) string {
	t.Helper()
	// The path of the test's own directory is too long.
	dir, err := os.MkdirTemp("", "ps")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return "unix://" + filepath.Join(dir, "s")
}

// start starts a podconfigd of that node with those sources, and with a store at path if that isn't empty. It
// serves once up is called.
func start(t *testing.T, node, endpoint, path string, names ...string) *podconfigd {
	t.Helper()
	d := &podconfigd{
		t: t, id: "id-" + node, node: node, endpoint: endpoint, requests: make(chan *podconfigv1.WatchPodUpdatesRequest, 1000),
		wishes: make(chan *podconfigv1.WatchObjectsRequest, 1000),
	}
	cfg := mergesvc.Config{}
	for _, name := range names {
		cfg.Sources = append(cfg.Sources, merge.Source{Name: name})
	}
	if path != "" {
		cfg.Store = &store.Config{Path: path, NoSync: true}
	}
	d.hub = mergesvc.NewHub(cfg)
	d.at = d.hub.History().Number()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { d.hub.Run(ctx) })
	d.down = func() {}
	d.kill = sync.OnceFunc(func() {
		d.down()
		cancel()
		running.Wait()
	})
	t.Cleanup(d.kill)
	return d
}

// up serves until down is called.
func (d *podconfigd) up() { d.upFor(nil) }

// upFor serves with the given access rules; nil means the default ones.
func (d *podconfigd) upFor(rules *access.Access) {
	d.t.Helper()
	svc := service.New(service.Config{History: d.hub.History(), Sources: d.hub.Sources, Path: d.path, Objects: d.objects})
	listeners, err := grpcserver.ListenFor(rules, []string{d.endpoint})
	if err != nil {
		d.t.Fatal(err)
	}
	if strings.HasPrefix(d.endpoint, "tcp://") {
		d.endpoint = "tcp://" + listeners[0].Addr().String()
	}
	server := grpcserver.New(grpcserver.Config{
		Register:      func(r grpc.ServiceRegistrar) { podconfigv1.RegisterPodConfigServiceServer(r, noting{svc, d}) },
		Closing:       svc.Close,
		Access:        rules,
		ServerOptions: []grpc.ServerOption{grpc.ForceServerCodecV2(wire.NewCodec())},
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, listeners) }()
	d.down = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
}

// noting is the service. It records its requests.
type noting struct {
	*service.Server
	d *podconfigd
}

func (n noting) WatchPodUpdates(
	req *podconfigv1.WatchPodUpdatesRequest, s grpc.ServerStreamingServer[podconfigv1.WatchPodUpdatesResponse],
) error {
	n.d.requests <- req
	return n.Server.WatchPodUpdates(req, s)
}

func (n noting) WatchObjects(
	req *podconfigv1.WatchObjectsRequest, s grpc.ServerStreamingServer[podconfigv1.WatchObjectsResponse],
) error {
	n.d.wishes <- req
	return n.Server.WatchObjects(req, s)
}

func (d *podconfigd) path() []*podconfigv1.RelayHop {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := []*podconfigv1.RelayHop{{Id: d.id, Node: d.node}}
	for _, r := range d.relays {
		out = append(out, r.Path()...)
	}
	return out
}

// set hands over a set in mergetest's notation.
func (d *podconfigd) set(source, text string) {
	d.t.Helper()
	d.second++
	d.hub.Apply(mergetest.Set(source, d.second, text))
}

// stored returns the pods of a source, as podconfigd passes them to a relay.
func (d *podconfigd) stored(source string) []Stored {
	var out []Stored
	for _, p := range d.hub.History().State().Pods {
		if p.Source == source {
			out = append(out, Stored{Origin: p.Origin, Pod: p.Object, SpecDigest: p.SpecDigest, StatusDigest: p.StatusDigest})
		}
	}
	return out
}

// want waits for the next revision and compares it with lines like "ADD relay: web", or with "settled" for one
// without ops.
func (d *podconfigd) want(lines ...string) *revision.Revision {
	d.t.Helper()
	late := time.After(deadline)
	for {
		rev, kept, more := d.hub.History().Next(d.at)
		if !kept {
			d.t.Fatalf("revision %d isn't kept", d.at+1)
		}
		if rev != nil {
			d.at = rev.Number
			if got, want := words(rev), strings.Join(lines, "\n"); got != want {
				d.t.Fatalf("on %s revision %d is\n%s\nwant\n%s", d.node, rev.Number, got, want)
			}
			return rev
		}
		select {
		case <-more:
		case <-late:
			d.t.Fatalf("on %s there is no revision within %v; want\n%s", d.node, deadline, strings.Join(lines, "\n"))
		}
	}
}

func words(rev *revision.Revision) string {
	var lines []string
	for _, c := range rev.Changes {
		line := fmt.Sprintf("%s %s:", c.Op, c.Source)
		for _, p := range c.Pods {
			line += " " + string(p.UID())
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return "settled"
	}
	return strings.Join(lines, "\n")
}

// unrelay ends its relays.
func (d *podconfigd) unrelay(all ...*sets) {
	for _, s := range all {
		s.stop()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.relays = nil
}

// pods returns the UIDs of the served pods.
func (d *podconfigd) pods() string {
	var out []string
	for _, p := range d.hub.History().State().Pods {
		out = append(out, string(p.UID()))
	}
	return strings.Join(out, " ")
}

// known returns the UIDs of a request's known pods, sorted.
func known(req *podconfigv1.WatchPodUpdatesRequest) string {
	var out []string
	for _, k := range req.GetKnownPods() {
		out = append(out, k.GetSource()+":"+k.GetUid())
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// ready reports whether a source of d is ready.
func (d *podconfigd) ready(source string) bool {
	return d.hub.History().Sources().ReadyAt(source, d.hub.History().Number())
}
