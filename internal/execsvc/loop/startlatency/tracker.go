package startlatency

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/kubeletmetrics"
)

// maxPulls bounds the pulls that are recorded for one pod.
const maxPulls = 100

// Config configures a Tracker.
type Config struct {
	// Metrics registers the metrics. Nil: they aren't served.
	Metrics prometheus.Registerer
	// Clock is compared with the creation times of pods. Nil means the real one.
	Clock clock.PassiveClock
}

// Tracker measures the starts of pods. It is safe for concurrent use. A nil Tracker measures nothing.
type Tracker struct {
	clock      clock.PassiveClock
	total, sli prometheus.Observer
	first      prometheus.Gauge

	mu   sync.Mutex
	pods map[types.UID]*start
	// firstSeen is set once a pod with a network of its own has started.
	firstSeen bool
}

// start is the start of a pod.
type start struct {
	pulls []interval
	// done is set once the pod is measured, or will never be.
	done bool
}

type interval struct{ begin, end time.Time }

// New returns a Tracker without pods.
func New(cfg Config) *Tracker {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	return &Tracker{
		clock: cfg.Clock, total: kubeletmetrics.PodStartTotalDuration.Vec(cfg.Metrics).WithLabelValues(),
		sli: kubeletmetrics.PodStartSLIDuration.Vec(cfg.Metrics).WithLabelValues(), first: kubeletmetrics.FirstNetworkPodStart.New(cfg.Metrics),
		pods: map[types.UID]*start{},
	}
}

// Observe takes the API server's present copy of a pod.
func (t *Tracker) Observe(pod *v1.Pod) {
	if t == nil || !podmeta.FromAPI(pod) || podmeta.IsMirror(pod) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.pods[pod.UID]
	if s == nil {
		s = &start{done: pod.Status.StartTime != nil}
		t.pods[pod.UID] = s
	}
	s.done = s.done || podmeta.IsTerminal(pod.Status.Phase) || unschedulable(pod)
	if s.done || !started(pod) {
		return
	}
	s.done = true
	took := t.clock.Since(pod.CreationTimestamp.Time)
	t.total.Observe(took.Seconds())
	if stateful(pod) {
		return
	}
	took -= union(s.pulls) + initTime(pod)
	t.sli.Observe(took.Seconds())
	if !pod.Spec.HostNetwork && !t.firstSeen {
		t.firstSeen = true
		t.first.Set(took.Seconds())
	}
}

// Pulled records a pull that the pod has waited for.
func (t *Tracker) Pulled(uid types.UID, begin, end time.Time) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.pods[uid]; s != nil && !s.done && len(s.pulls) < maxPulls {
		s.pulls = append(s.pulls, interval{begin, end})
	}
}

// Drop removes a pod.
func (t *Tracker) Drop(uid types.UID) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pods, uid)
}

// started reports whether all of the pod's containers run.
func started(pod *v1.Pod) bool {
	return len(pod.Status.ContainerStatuses) >= len(pod.Spec.Containers) &&
		!slices.ContainsFunc(pod.Status.ContainerStatuses, func(c v1.ContainerStatus) bool {
			return c.State.Running == nil || c.State.Running.StartedAt.IsZero()
		})
}

func unschedulable(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse
	})
}

// stateful reports whether the pod has a volume that may take any time to attach.
func stateful(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool {
		return v.Secret == nil && v.ConfigMap == nil && v.DownwardAPI == nil && v.EmptyDir == nil && v.Projected == nil
	})
}

// initTime returns how long the init containers ran that have ended.
func initTime(pod *v1.Pod) time.Duration {
	var sum time.Duration
	for _, c := range pod.Status.InitContainerStatuses {
		if end := c.State.Terminated; end != nil && !end.StartedAt.IsZero() {
			sum += max(end.FinishedAt.Sub(end.StartedAt.Time), 0)
		}
	}
	return sum
}

// union returns the time in which at least one of the pulls ran.
func union(pulls []interval) time.Duration {
	slices.SortFunc(pulls, func(a, b interval) int { return a.begin.Compare(b.begin) })
	var sum time.Duration
	var end time.Time
	for _, p := range pulls {
		begin := p.begin
		if begin.Before(end) {
			begin = end
		}
		if p.end.After(begin) {
			sum += p.end.Sub(begin)
			end = p.end
		}
	}
	return sum
}
