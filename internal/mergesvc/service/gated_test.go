package service_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/clocktest"
	"github.com/podstream/podstream/internal/mergesvc/wire"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// gatedStream is a transport that accepts a message when the test allows it.
type gatedStream struct {
	grpc.ServerStream
	ctx context.Context
	// entered gets each message before it is sent, which waits for a token in gate.
	entered chan any
	gate    chan struct{}
}

func newGatedStream(ctx context.Context) *gatedStream {
	return &gatedStream{ctx: ctx, entered: make(chan any), gate: make(chan struct{})}
}

func (s *gatedStream) Context() context.Context { return s.ctx }

func (s *gatedStream) Send(m *podconfigv1.WatchPodUpdatesResponse) error { return s.SendMsg(m) }

func (s *gatedStream) SendMsg(m any) error {
	for _, step := range []func() bool{
		func() bool {
			select {
			case s.entered <- m:
				return true
			case <-s.ctx.Done():
				return false
			}
		},
		func() bool {
			select {
			case <-s.gate:
				return true
			case <-s.ctx.Done():
				return false
			}
		},
	} {
		if !step() {
			return s.ctx.Err()
		}
	}
	return nil
}

// decoded returns a message as a client receives it.
func decoded(t *testing.T, m any) *podconfigv1.WatchPodUpdatesResponse {
	t.Helper()
	data, err := wire.NewCodec().Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	out := &podconfigv1.WatchPodUpdatesResponse{}
	if err := proto.Unmarshal(data.Materialize(), out); err != nil {
		t.Fatal(err)
	}
	return out
}

// sweepClock is the clock of a service that sweeps its consumers at each tick.
type sweepClock struct{ *clocktest.Clock }

// sweep advances the time, ticks once, and returns when the tick was handled.
func (c *sweepClock) sweep(d time.Duration) {
	c.Step(d)
	c.TickOnce()
}

// gauges formats the values of a collector's gauges.
func gauges(t *testing.T, c prometheus.Collector) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += "{" + l.GetValue() + "}"
			}
			out = append(out, fmt.Sprintf("%s=%v", name, m.GetGauge().GetValue()+m.GetCounter().GetValue()))
		}
	}
	return strings.Join(out, " ")
}

// gathered returns the value of a counter.
func gathered(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	_, value, _ := strings.Cut(gauges(t, c), "=")
	v, err := strconv.ParseFloat(value, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// gated is a consumer on a gatedStream of the node.
type gated struct {
	*gatedStream
	t     *testing.T
	ended chan error
}

func (n *node) gated(req *podconfigv1.WatchPodUpdatesRequest) *gated {
	return n.gatedAs(access.Caller{Identity: "uid:0", Role: access.Consumer}, req)
}

func (n *node) gatedAs(caller access.Caller, req *podconfigv1.WatchPodUpdatesRequest) *gated {
	ctx, cancel := context.WithCancel(access.NewContext(context.Background(), caller))
	g := &gated{newGatedStream(ctx), n.t, make(chan error, 1)}
	go func() { g.ended <- n.svc.WatchPodUpdates(req, g.gatedStream) }()
	n.t.Cleanup(cancel)
	return g
}

// waits returns the message that the consumer reads next, without reading it.
func (g *gated) waits() *podconfigv1.WatchPodUpdatesResponse {
	g.t.Helper()
	return decoded(g.t, <-g.entered)
}

func (g *gated) take() { g.gate <- struct{}{} }

// sweeping runs the server's Run until the test ends.
func (n *node) sweeping() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.svc.Run(ctx)
	}()
	n.t.Cleanup(func() {
		cancel()
		<-ended
	})
}
