package mergesvc_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	"github.com/podstream/podstream/internal/mergesvc/metrics"
	"github.com/podstream/podstream/internal/mergesvc/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tickClock is a fake clock whose ticker ticks when the test says so, and tells when the tick was dealt with.
type tickClock struct {
	*testclock.FakeClock
	// now is called by each Now; nil for nothing.
	now func()

	asked sync.Cond
	// ticks is what the ticker's owner waits for: another channel each time that it asks.
	ticks chan time.Time
}

func newTickClock() *tickClock {
	return &tickClock{FakeClock: testclock.NewFakeClock(time.Unix(1000, 0)), asked: sync.Cond{L: &sync.Mutex{}}}
}

func (c *tickClock) Now() time.Time {
	if c.now != nil {
		c.now()
	}
	return c.FakeClock.Now()
}

func (c *tickClock) NewTicker(time.Duration) clock.Ticker { return ticker{c} }

// awaitOther waits until the ticker's owner waits for another channel than that.
func (c *tickClock) awaitOther(than chan time.Time) chan time.Time {
	c.asked.L.Lock()
	defer c.asked.L.Unlock()
	for c.ticks == than {
		c.asked.Wait()
	}
	return c.ticks
}

// tick ticks once, and returns when that was dealt with.
func (c *tickClock) tick() {
	ticks := c.awaitOther(nil)
	ticks <- c.FakeClock.Now()
	c.awaitOther(ticks)
}

type ticker struct{ *tickClock }

func (t ticker) C() <-chan time.Time {
	t.asked.L.Lock()
	defer t.asked.L.Unlock()
	t.ticks = make(chan time.Time)
	t.asked.Broadcast()
	return t.ticks
}

func (ticker) Stop() {}

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

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// daemon is a hub that runs, with what it tells.
type daemon struct {
	*mergesvc.Hub
	t      *testing.T
	clock  *tickClock
	log    *syncBuffer
	counts *metrics.Metrics
	second int64
	// stop ends Run and waits for it.
	stop func()
}

// run runs a hub of the sources file and api with a store at path.
func run(t *testing.T, path string) *daemon {
	d := &daemon{t: t, clock: newTickClock(), log: &syncBuffer{}, counts: metrics.New()}
	log := slog.New(slog.NewTextHandler(d.log, nil))
	d.Hub = mergesvc.NewHub(mergesvc.Config{
		Sources: []merge.Source{{Name: "file"}, {Name: "api"}}, Store: &store.Config{Path: path, NoSync: true, Logger: log},
		Logger: log, Metrics: d.counts, Clock: d.clock,
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.Run(ctx)
	}()
	d.stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(d.stop)
	return d
}

func newStore(t *testing.T) string { return filepath.Join(t.TempDir(), "podconfigd.db") }

// set merges a set in mergetest's notation.
func (d *daemon) set(source, text string) {
	d.second++
	d.Apply(mergetest.Set(source, d.second, text))
}

// pods are the UIDs that are served.
func (d *daemon) pods() string {
	var out []string
	for _, p := range d.History().State().Pods {
		out = append(out, string(p.UID()))
	}
	return strings.Join(out, " ")
}

// killed is a copy of the store as a kill at this moment would leave it.
func killed(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copied := newStore(t)
	if err := os.WriteFile(copied, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return copied
}

// gauge is the value of a metric without labels, or -1.
func gauge(t *testing.T, name string, cs ...prometheus.Collector) float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(cs...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return -1
}
