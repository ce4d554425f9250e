package mergesvc_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/podstream/podstream/internal/clocktest"
	"github.com/podstream/podstream/internal/logtest"
	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	"github.com/podstream/podstream/internal/mergesvc/metrics"
	"github.com/podstream/podstream/internal/mergesvc/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tickClock is a Clock that can call a function on each Now.
type tickClock struct {
	*clocktest.Clock
	now func()
}

func (c *tickClock) Now() time.Time {
	if c.now != nil {
		c.now()
	}
	return c.Clock.Now()
}

// daemon is a running hub, with its log.
type daemon struct {
	*mergesvc.Hub
	t      *testing.T
	clock  *tickClock
	log    *logtest.Buffer
	counts *metrics.Metrics
	second int64
	// stop ends Run and waits for it.
	stop func()
}

// run runs a hub of the sources file and api with a store at path.
func run(t *testing.T, path string) *daemon {
	d := &daemon{t: t, clock: &tickClock{Clock: clocktest.New()}, log: &logtest.Buffer{}, counts: metrics.New()}
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

// pods returns the UIDs of the served pods.
func (d *daemon) pods() string {
	var out []string
	for _, p := range d.History().State().Pods {
		out = append(out, string(p.UID()))
	}
	return strings.Join(out, " ")
}

// killed returns a copy of the store, as a kill at this moment would leave it.
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

// gauge returns the value of a metric without labels, or -1.
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
