package service_test

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/mergesvc/wire"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// gatedStream is a transport that takes a message when the test says so.
type gatedStream struct {
	grpc.ServerStream
	ctx context.Context
	// entered gets each message that somebody wants to send; it is taken when one is put into gate.
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

// decoded is a message as the other side gets it.
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

// sweepClock is a fake clock whose ticker ticks when the test says so, and tells when the tick was dealt with.
type sweepClock struct {
	*testclock.FakeClock

	asked sync.Cond
	// ticks is what the ticker's owner waits for: another channel each time that it asks.
	ticks chan time.Time
}

func newSweepClock() *sweepClock {
	return &sweepClock{FakeClock: testclock.NewFakeClock(time.Unix(1000, 0)), asked: sync.Cond{L: &sync.Mutex{}}}
}

func (c *sweepClock) NewTicker(time.Duration) clock.Ticker { return sweepTicker{c} }

// awaitOther waits until the ticker's owner waits for another channel than that.
func (c *sweepClock) awaitOther(than chan time.Time) chan time.Time {
	c.asked.L.Lock()
	defer c.asked.L.Unlock()
	for c.ticks == than {
		c.asked.Wait()
	}
	return c.ticks
}

// sweep lets time pass, ticks once, and returns when that was dealt with.
func (c *sweepClock) sweep(d time.Duration) {
	c.Step(d)
	ticks := c.awaitOther(nil)
	ticks <- c.Now()
	c.awaitOther(ticks)
}

type sweepTicker struct{ *sweepClock }

func (t sweepTicker) C() <-chan time.Time {
	t.asked.L.Lock()
	defer t.asked.L.Unlock()
	t.ticks = make(chan time.Time)
	t.asked.Broadcast()
	return t.ticks
}

func (sweepTicker) Stop() {}

// syncBuffer is a log that may be read while it is written.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.buf.String(), text)
}

// gauges are the values of a collector's gauges, in words.
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

// gathered is the value of a counter.
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
	ctx, cancel := context.WithCancel(access.NewContext(context.Background(), access.Caller{Identity: "uid:0", Role: access.Consumer}))
	g := &gated{newGatedStream(ctx), n.t, make(chan error, 1)}
	go func() { g.ended <- n.svc.WatchPodUpdates(req, g.gatedStream) }()
	n.t.Cleanup(cancel)
	return g
}

// waits is the message that the consumer is to read next; it isn't taken yet.
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
