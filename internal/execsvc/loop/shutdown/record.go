package shutdown

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/google/renameio/v2"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/kubeletmetrics"
)

// StateFile is the name of the kubelet's file with the times of the last shutdown, in the root directory.
const StateFile = "graceful_node_shutdown_state"

// times are the content of the file.
type times struct {
	Start time.Time `json:"startTime"`
	End   time.Time `json:"endTime"`
}

// record keeps the times of the last shutdown: in a file, as the metrics are read after the boot.
type record struct {
	path       string
	clock      clock.PassiveClock
	log        *slog.Logger
	start, end prometheus.Gauge
	// last are the times of the last shutdown. Its users don't overlap.
	last times
	// writing are the goroutines that write the file, one at a time: nothing waits for a disk.
	writing sync.WaitGroup
	file    sync.Mutex
}

func newRecord(cfg Config) *record {
	return &record{
		path: cfg.StateFile, clock: cfg.Clock, log: cfg.Logger,
		start: kubeletmetrics.GracefulShutdownStart.New(cfg.Metrics), end: kubeletmetrics.GracefulShutdownEnd.New(cfg.Metrics),
	}
}

// maxState bounds the file.
const maxState = 4 << 10

// load reads the times of the last shutdown.
func (r *record) load() {
	file, err := os.Open(r.path)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	var text []byte
	if err == nil {
		defer func() { _ = file.Close() }()
		text, err = io.ReadAll(io.LimitReader(file, maxState))
	}
	if err == nil {
		err = json.Unmarshal(text, &r.last)
	}
	if err != nil {
		r.log.Warn("the times of the last shutdown are lost", "file", r.path, "error", err)
	}
	r.show()
}

// rest returns how much of that time is left of a shutdown that was recorded before the restart of podexecd, and has no
// recorded end. It is zero if there is none, or if it isn't one of this clock.
func (r *record) rest(delay time.Duration) time.Duration {
	ago := r.clock.Now().Sub(r.last.Start)
	if r.last.Start.IsZero() || !r.last.End.IsZero() || ago < 0 || ago >= delay {
		return 0
	}
	return delay - ago
}

// begin records the beginning of a shutdown, and returns when it was. After a restart of podexecd during the shutdown, it
// is the time in the file, which is less than the delay ago.
func (r *record) begin(restarted bool, delay time.Duration) time.Time {
	now := r.clock.Now()
	if rest := r.rest(delay); restarted && rest > 0 {
		return now.Add(rest - delay)
	}
	r.last = times{Start: now}
	r.store()
	return now
}

// finish records the end of the shutdown. It waits for the disk, but not beyond ctx.
func (r *record) finish(ctx context.Context) {
	r.last.End = r.clock.Now()
	select {
	case <-r.store():
	case <-ctx.Done():
	}
}

// store writes the file. The channel is closed when that is done.
func (r *record) store() <-chan struct{} {
	r.show()
	state, done := r.last, make(chan struct{})
	r.writing.Go(func() {
		defer close(done)
		r.file.Lock()
		defer r.file.Unlock()
		text, err := json.Marshal(state)
		if err == nil {
			err = renameio.WriteFile(r.path, text, 0o644)
		}
		if err != nil {
			r.log.Warn("the times of the shutdown can't be stored", "file", r.path, "error", err)
		}
	})
	return done
}

func (r *record) show() {
	r.start.Set(unix(r.last.Start))
	r.end.Set(unix(r.last.End))
}

func unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.Unix())
}
