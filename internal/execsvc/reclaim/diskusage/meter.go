package diskusage

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/kubeletdir"
)

const (
	// defaultQuick bounds a count in the quick queue.
	defaultQuick = 100 * time.Millisecond
	// slowTurn is the time after which slow counts take turns.
	slowTurn = 50 * time.Millisecond
	// restFactor is how many times longer a slow pod is not counted than its count took; maxRest is the most.
	restFactor, maxRest = 9, time.Minute
	// quickWorkers and slowWorkers are the counts under way in each queue, and slowOfNamespace those of one namespace
	// in the slow queue.
	quickWorkers, slowWorkers, slowOfNamespace = 2, 8, 2
	// dropAfter is how long the figures of a pod are kept without a request.
	dropAfter = 10 * time.Minute
	// defaultEnough is how many files a count must have seen until the end of its time for the pod to be the cause.
	defaultEnough = 1_000_000

	defaultMaxFiles = 10_000_000
	defaultMaxTime  = 5 * time.Minute
)

// Config has the directories of pods, and the bounds of a count.
type Config struct {
	// PodDirs are the places of the pods' directories. LogsDir has the pods' logs: /var/log/pods.
	PodDirs kubeletdir.Pods
	LogsDir string
	// MaxFiles bounds the files of one pod. Zero means ten million.
	MaxFiles int
	// MaxTime bounds the time that one pod's files are counted, without the time that the count waits. Zero means 5
	// min.
	MaxTime time.Duration
	// Clock gives the time of figures. Nil means the real one.
	Clock clock.PassiveClock
}

// Meter has the figures of all pods. It is safe for concurrent use.
type Meter struct {
	cfg Config
	// quickTime and enough are constants that tests change.
	quickTime time.Duration
	enough    int
	// turn is held by the slow count that runs.
	turn chan struct{}

	mu          sync.Mutex
	pods        map[types.UID]*entry
	quick, slow queue
	swept       time.Time
}

// entry is one pod.
type entry struct {
	pod  *v1.Pod
	last *Usage
	// asked is when a caller last requested the pod; restUntil is when it may be counted again.
	asked, restUntil time.Time
	// large is set if the last count was slow.
	large bool
	// namespace is the pod's key in the queue; trouble records its failed counts.
	namespace string
	trouble   trouble
	// ended is closed at the end of the count that is queued or under way. Nil: there is none.
	ended chan struct{}
	// bytes and inodes are what the count under way has found so far.
	bytes, inodes atomic.Int64
}

// New returns a Meter. It counts while Run runs.
func New(cfg Config) *Meter {
	if cfg.MaxFiles == 0 {
		cfg.MaxFiles = defaultMaxFiles
	}
	if cfg.MaxTime == 0 {
		cfg.MaxTime = defaultMaxTime
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	return &Meter{
		cfg: cfg, quickTime: defaultQuick, enough: defaultEnough, turn: make(chan struct{}, 1), pods: map[types.UID]*entry{},
		quick: newQueue(quickWorkers), slow: newQueue(slowOfNamespace),
	}
}

// Counts returns the latest figures of the pods. Those older than age are counted again first, as long as ctx lasts;
// a pod that isn't counted by then has its last figures, and Unfinished. A large pod may have older figures, as it is
// counted less often.
func (m *Meter) Counts(ctx context.Context, pods []*v1.Pod, age time.Duration) map[types.UID]Usage {
	for _, ended := range m.ask(pods, age) {
		select {
		case <-ended:
		case <-ctx.Done():
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[types.UID]Usage, len(pods))
	for _, pod := range pods {
		if e := m.pods[pod.UID]; e != nil {
			out[pod.UID] = e.usage()
		}
	}
	return out
}

// usage holds the lock.
func (e *entry) usage() Usage {
	var u Usage
	if e.last != nil {
		u = *e.last
	}
	if e.ended != nil {
		u.Unfinished = Figure{e.bytes.Load(), e.inodes.Load()}
	}
	return u
}

// ask queues the pods whose figures are too old. It returns channels that are closed at the end of their counts.
func (m *Meter) ask(pods []*v1.Pod, age time.Duration) (ended []<-chan struct{}) {
	now := m.cfg.Clock.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep(now)
	for _, pod := range pods {
		e := m.pods[pod.UID]
		if e == nil {
			e = &entry{}
			m.pods[pod.UID] = e
		}
		e.pod, e.asked = pod, now
		if e.ended == nil && e.due(now, age) {
			e.ended = make(chan struct{})
			m.enqueue(e)
		}
		if e.ended != nil {
			ended = append(ended, e.ended)
		}
	}
	return ended
}

// due reports whether the pod is to be counted. A clock that was set back makes it due.
func (e *entry) due(now time.Time, age time.Duration) bool {
	if e.last == nil {
		return true
	}
	since := now.Sub(e.last.At)
	return since < 0 || since > age && (now.After(e.restUntil) || since > maxRest)
}

// sweep removes the pods that no caller has requested lately.
func (m *Meter) sweep(now time.Time) {
	if since := now.Sub(m.swept); since >= 0 && since < time.Minute {
		return
	}
	m.swept = now
	for uid, e := range m.pods {
		if e.ended == nil && (now.Sub(e.asked) > dropAfter || now.Before(e.asked)) {
			delete(m.pods, uid)
		}
	}
}

// enqueue holds the lock.
func (m *Meter) enqueue(e *entry) {
	e.bytes.Store(0)
	e.inodes.Store(0)
	q := &m.quick
	if e.large {
		q = &m.slow
	}
	q.put(e)
}

// take returns the next pod of the queue, when there is one; nil: ctx has ended.
func (m *Meter) take(ctx context.Context, q *queue) *entry {
	for {
		m.mu.Lock()
		e := q.next()
		m.mu.Unlock()
		if e != nil {
			return e
		}
		select {
		case <-q.ready:
		case <-ctx.Done():
			return nil
		}
	}
}

// Run counts until ctx ends.
func (m *Meter) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for range quickWorkers {
		all.Go(func() { m.work(ctx, &m.quick, m.countQuick) })
	}
	for range slowWorkers {
		all.Go(func() { m.work(ctx, &m.slow, m.countSlow) })
	}
}

// work counts the pods of a queue until ctx ends.
func (m *Meter) work(ctx context.Context, q *queue, count func(context.Context, *entry) (*Usage, time.Duration)) {
	for {
		e := m.take(ctx, q)
		if e == nil {
			return
		}
		u, took := count(ctx, e)
		m.mu.Lock()
		q.done(e)
		switch {
		case errors.Is(u.Err, errNotQuick):
			e.large = true
			m.enqueue(e)
		case ctx.Err() != nil:
		default:
			now := m.cfg.Clock.Now()
			u.At = now
			e.trouble.judge(u, e.last, m.cfg.MaxTime)
			e.last, e.large = u, took > m.quickTime
			e.restUntil = now.Add(min(restFactor*took, maxRest))
			close(e.ended)
			e.ended = nil
		}
		m.mu.Unlock()
	}
}
