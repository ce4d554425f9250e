package volumeusage

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/record"
	"github.com/podstream/podstream/internal/kubeletmetrics"
)

const (
	// period is the time between two calls for a volume, as that between two counts of a pod's files. Up to a tenth is left out at
	// random.
	period = time.Minute
	// look is how often the list of mounted volumes is read.
	look = 5 * time.Second
	// maxAge is the age up to which a value is shown. Only a driver that doesn't answer lets one become so old.
	maxAge = 5 * time.Minute
	// slow is the duration of a call after which a volume is slow. After each slow call that failed its period is twice as long, up
	// to 1<<maxShift times.
	slow     = 10 * time.Second
	maxShift = 3
	// maxCalls is the number of calls of a driver at a time, and maxSlow that of slow volumes among them.
	maxCalls, maxSlow = 8, 4
	// maxDrivers is the number of drivers whose names become labels.
	maxDrivers = 100
)

// Volumes are the mounted volumes: storage.Storage.
type Volumes interface {
	// Mounted returns those that pods can use now.
	Mounted() []storage.Mounted
	// Stats has the driver asked. It ends with ctx.
	Stats(ctx context.Context, uid types.UID, name string) (storage.Stats, error)
}

// Config configures a Meter.
type Config struct {
	Volumes Volumes
	// Metrics registers the histogram of calls. Nil: it isn't served.
	Metrics prometheus.Registerer
	// Clock is for tests. Nil: the real one.
	Clock clock.Clock
	// Log receives a message when a volume can't be measured any more. Nil: the default logger.
	Log *slog.Logger
}

// Usage is how full a volume is.
type Usage struct {
	// At is when the driver was asked.
	At time.Time
	storage.Stats
}

// Meter measures volumes. It is safe for concurrent use.
type Meter struct {
	cfg     Config
	took    *prometheus.HistogramVec
	drivers *kubeletmetrics.Limited
	// ended has an element if a call has ended since the last look.
	ended chan struct{}
	calls sync.WaitGroup

	mu      sync.Mutex
	volumes map[place]*volume
	driver  map[string]load
}

// place is where a volume is mounted.
type place struct {
	record.Key
	record.Target
}

// volume is what is known of a mounted volume.
type volume struct {
	// due is when the next call may begin.
	due time.Time
	// last is the last answer; nil: there is none, or the last call failed.
	last *Usage
	// failing is set if the last call failed, and slow is the number of the last calls, one after the other, that took long.
	failing bool
	slow    int
}

// load are the calls of a driver that are under way: the handles of their volumes, and whether each one counts as slow.
type load map[string]bool

// room reports whether another call for the handle may begin.
func (l load) room(handle string, isSlow bool) bool {
	if _, busy := l[handle]; busy || len(l) >= maxCalls {
		return false
	}
	n := 0
	for _, s := range l {
		if s {
			n++
		}
	}
	return !isSlow || n < maxSlow
}

// New returns a Meter that measures nothing before Run.
func New(cfg Config) *Meter {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	return &Meter{
		cfg: cfg, took: kubeletmetrics.VolumeMetricCollection.Vec(cfg.Metrics), drivers: kubeletmetrics.NewLimited(maxDrivers),
		ended: make(chan struct{}, 1), volumes: map[place]*volume{}, driver: map[string]load{},
	}
}

// Usage returns the last values of the volumes that are mounted now, by the pod's UID and by the name in its spec. It waits for nothing.
func (m *Meter) Usage() map[types.UID]map[string]Usage {
	mounted, now := m.cfg.Volumes.Mounted(), m.cfg.Clock.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[types.UID]map[string]Usage{}
	for _, at := range mounted {
		v := m.volumes[place{at.Key, at.Target}]
		if v == nil || v.last == nil || now.Sub(v.last.At) > maxAge {
			continue
		}
		if all[at.UID] == nil {
			all[at.UID] = map[string]Usage{}
		}
		for _, name := range at.Volumes {
			all[at.UID][name] = *v.last
		}
	}
	return all
}

// Run measures until ctx ends, and then waits for the calls.
func (m *Meter) Run(ctx context.Context) {
	defer m.calls.Wait()
	for ctx.Err() == nil {
		m.begin(ctx)
		timer := m.cfg.Clock.NewTimer(look)
		select {
		case <-timer.C():
		case <-m.ended:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// begin begins the calls that are due, and forgets the volumes that aren't mounted any more.
func (m *Meter) begin(ctx context.Context) {
	mounted, now := m.cfg.Volumes.Mounted(), m.cfg.Clock.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	is := make(map[place]bool, len(mounted))
	for _, at := range mounted {
		p := place{at.Key, at.Target}
		is[p] = true
		if m.volumes[p] == nil {
			m.volumes[p] = &volume{due: now}
		}
	}
	for p := range m.volumes {
		if !is[p] {
			delete(m.volumes, p)
		}
	}
	for _, at := range m.inOrder(mounted) {
		p := place{at.Key, at.Target}
		v := m.volumes[p]
		if now.Before(v.due) || !m.driver[p.Driver].room(p.Handle, v.slow > 0) {
			continue
		}
		if m.driver[p.Driver] == nil {
			m.driver[p.Driver] = load{}
		}
		m.driver[p.Driver][p.Handle] = v.slow > 0
		m.calls.Go(func() { m.measure(ctx, p, v, at.Volumes[0]) })
	}
}

// measure makes one call, and records its result.
func (m *Meter) measure(ctx context.Context, p place, v *volume, name string) {
	began := m.cfg.Clock.Now()
	stats, err := m.cfg.Volumes.Stats(ctx, p.UID, name)
	took := m.cfg.Clock.Since(began)
	if ctx.Err() == nil {
		m.took.WithLabelValues(m.drivers.Value(p.Driver)).Observe(took.Seconds())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.driver[p.Driver], p.Handle)
	if len(m.driver[p.Driver]) == 0 {
		delete(m.driver, p.Driver)
	}
	v.slow++
	if took < slow {
		v.slow = 0
	}
	v.last = nil
	shift := min(v.slow, maxShift)
	if err == nil {
		v.last, shift = &Usage{At: began, Stats: stats}, 0
	}
	v.due = m.cfg.Clock.Now().Add(pause(shift))
	if unable := err != nil && !errors.Is(err, storage.ErrNoStats); unable != v.failing && ctx.Err() == nil && m.volumes[p] == v {
		v.failing = unable
		m.report(p, err)
	}
	select {
	case m.ended <- struct{}{}:
	default:
	}
}

// pause returns the time from the end of a call to the next one.
func pause(shift int) time.Duration {
	d := period << shift
	return d - rand.N(d/10) //nolint:gosec // It spreads load; it is no secret.
}

// report logs that a volume can't be measured any more, or can be again.
func (m *Meter) report(p place, err error) {
	log := m.cfg.Log.With("driver", p.Driver, "volume", p.Handle, "uid", p.UID)
	if err == nil {
		log.Info("the CSI driver says again how full the volume is")
		return
	}
	log.Warn("the CSI driver can't say how full the volume is; it has no metrics, and the driver is asked again", "error", err)
}
