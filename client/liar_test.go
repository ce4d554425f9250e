package client_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/test/bufconn"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/client/position"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	"github.com/podstream/podstream/internal/mergesvc/service"
	"github.com/podstream/podstream/internal/mergesvc/wire"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// liar is a podconfigd with a valid certificate whose streams have a lie.
type liar struct {
	podconfigv1.UnimplementedPodConfigServiceServer
	lie     func(serverStream) error
	objects func(objectStream) error
	// subscribed counts its streams.
	subscribed atomic.Int32
}

type objectStream = grpc.ServerStreamingServer[podconfigv1.WatchObjectsResponse]

func (l *liar) WatchPodUpdates(_ *podconfigv1.WatchPodUpdatesRequest, s serverStream) error {
	l.subscribed.Add(1)
	if err := l.lie(s); err != nil {
		return err
	}
	<-s.Context().Done()
	return nil
}

func (l *liar) WatchObjects(_ *podconfigv1.WatchObjectsRequest, s objectStream) error {
	l.subscribed.Add(1)
	if err := l.objects(s); err != nil {
		return err
	}
	<-s.Context().Done()
	return nil
}

// honest is podconfigd's own service. Its source file follows the cluster c at version 30, and an API server that is
// at 31 answers its requests for a consistent list.
type honest struct {
	*service.Server
	hub       *mergesvc.Hub
	asked     chan struct{}
	mu        sync.Mutex
	confirmed uint64
}

func newHonest() *honest {
	h := &honest{hub: mergesvc.NewHub(mergesvc.Config{Sources: sourcesOf([]string{"file"})}), asked: make(chan struct{}, 100)}
	h.Server = service.New(service.Config{History: h.hub.History(), Sources: h.hub.Sources, Confirm: func(string, []string) uint64 {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.confirmed++
		h.asked <- struct{}{}
		return h.confirmed
	}})
	h.follow(1, 0, "30", "a: one(uid=one) two(uid=two)")
	return h
}

// follow merges the pods at a version.
func (h *honest) follow(second int64, confirmed uint64, version, text string) {
	set := mergetest.Set("file", second, text)
	at := position.Positions{{Source: "file", Cluster: "c", ResourceVersion: version}}
	set.Progress = &manifest.Progress{Changed: at, Current: at, Confirmed: confirmed, ConfirmedAt: "31"}
	h.hub.Apply(set)
}

// confirm answers requests for a consistent list until ctx ends, a second later.
func (h *honest) confirm(ctx context.Context) {
	for second := int64(2); ; second++ {
		select {
		case <-ctx.Done():
			return
		case <-h.asked:
		}
		time.Sleep(time.Second)
		h.mu.Lock()
		confirmed := h.confirmed
		h.mu.Unlock()
		h.follow(second, confirmed, "30", "a: one(uid=one) two(uid=two)")
	}
}

func (h *honest) WatchPodUpdates(req *podconfigv1.WatchPodUpdatesRequest, s serverStream) error {
	return h.Server.WatchPodUpdates(req, permitted{s})
}

// WatchObjects sends a SET of one object: the service has no objects here.
func (h *honest) WatchObjects(req *podconfigv1.WatchObjectsRequest, s objectStream) error {
	first := objectsOf(setObjects, 0, object("default", "good"))
	if req.GetResumeAfter() != nil {
		// The difference to what the consumer has, of which the removals come with synced.
		first = objectPut(1, object("default", "good"))
	}
	_ = s.Send(first)
	_ = s.Send(&objectMessage{Event: &podconfigv1.WatchObjectsResponse_Synced{Synced: synced(1).GetSynced()}, Cursor: cursor(1)})
	<-s.Context().Done()
	return nil
}

// serveMemory serves in memory.
func serveMemory(api podconfigv1.PodConfigServiceServer) (l *bufconn.Listener, stop func()) {
	server := grpc.NewServer(grpc.ForceServerCodecV2(wire.NewCodec()),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}))
	podconfigv1.RegisterPodConfigServiceServer(server, api)
	healthy := health.NewServer()
	healthy.SetServingStatus("podconfigd.sources", healthv1.HealthCheckResponse_SERVING)
	healthv1.RegisterHealthServer(server, healthy)
	l = bufconn.Listen(1 << 20)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	return l, func() {
		server.Stop()
		serving.Wait()
	}
}

// node is a consumer of a liar and, after it in its list of endpoints, an honest podconfigd. It holds the pod one, of
// version 20 of the source file.
type node struct {
	liar   *liar
	honest *honest
	client *client.Client
	// events are what was delivered, calls how often, and pods those that it holds then.
	events []string
	calls  int
	pods   map[string]bool
	cursor *podconfigv1.Cursor
	breaks []string
	log    *bytes.Buffer
}

// live runs a node for some time, and then stops it.
func live(t *testing.T, l *liar, lasts time.Duration, watch func(context.Context, *node) error) *node {
	t.Helper()
	n := &node{liar: l, honest: newHonest(), pods: map[string]bool{"one": true}, log: &bytes.Buffer{}}
	at0, stop0 := serveMemory(l)
	defer stop0()
	at1, stop1 := serveMemory(n.honest)
	defer stop1()
	defer n.honest.Close()
	var err error
	n.client, err = client.New(client.Config{
		Endpoint: "unix:///0,unix:///1", Order: client.Listed, Logger: slog.New(slog.NewTextHandler(n.log, nil)),
		OnBreak: func(err error) { n.breaks = append(n.breaks, err.Error()) },
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			if strings.HasSuffix(address, "0") {
				return at0.DialContext(ctx)
			}
			return at1.DialContext(ctx)
		})},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.client.Close() }()
	// Not with a deadline: gRPC's server would end the stream at the same time.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	defer time.AfterFunc(lasts, cancel).Stop()
	var confirming sync.WaitGroup
	confirming.Go(func() { n.honest.confirm(ctx) })
	if err := watch(ctx, n); ctx.Err() == nil {
		t.Errorf("the node's stream ends for good with %v; want it to go on", err)
	}
	cancel()
	confirming.Wait()
	return n
}

// watchPods is the node's stream of pods.
func watchPods(ctx context.Context, n *node) error {
	opts := client.WatchOptions{
		ResumeAfter: of("start", "20", synced(3)).GetCursor(), MaxRevisionBytes: 64 << 10, MaxBytes: 64 << 10,
		Known: []client.Pod{{UID: "one", Source: "file", Namespace: "default", Name: "one", SpecDigest: "s", StatusDigest: "t"}},
	}
	return n.client.Watch(ctx, opts, func(_ context.Context, e client.Event) error {
		n.calls++
		n.cursor = e.Cursor
		if len(e.Ops) > 0 && len(n.events) < 10 {
			n.events = append(n.events, words(e))
		}
		for _, c := range e.Ops {
			for _, p := range c.Pods {
				if n.pods[string(p.UID)] = c.Op != client.Remove; c.Op == client.Remove {
					delete(n.pods, string(p.UID))
				}
			}
		}
		return nil
	})
}

// held returns the pods that the node holds.
func (n *node) held() string {
	var out []string
	for uid := range n.pods {
		out = append(out, uid)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// ended returns the error with which the liar's first stream ended.
func (n *node) ended() string {
	if len(n.breaks) == 0 {
		return ""
	}
	return n.breaks[0]
}
