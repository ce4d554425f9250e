package execsvc

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/loop/worker"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/kubeletmetrics"
)

// census has the numbers of pods. They are counted when they are scraped, from what is in memory: nothing is counted
// while there is no scrape. It implements prometheus.Collector.
type census struct{ agent *Agent }

var (
	runningPods       = kubeletmetrics.RunningPods.Desc()
	runningContainers = kubeletmetrics.RunningContainers.Desc()
	desiredPods       = kubeletmetrics.DesiredPods.Desc()
	activePods        = kubeletmetrics.ActivePods.Desc()
	workingPods       = kubeletmetrics.WorkingPods.Desc()
	ephemerals        = kubeletmetrics.ManagedEphemeralContainers.Desc()
	unswept           = kubeletmetrics.OrphanPodCleanedVolumesErrors.Desc()
	pendingResizes    = kubeletmetrics.PodPendingResizes.Desc()
	startedResizes    = kubeletmetrics.PodInProgressResizes.Desc()
)

// Describe is part of prometheus.Collector.
func (c census) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		runningPods, runningContainers, desiredPods, activePods, workingPods, ephemerals, unswept, pendingResizes, startedResizes,
	} {
		out <- d
	}
}

// Collect is part of prometheus.Collector.
func (c census) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	found, _ := c.agent.pleg.Pods()
	running, states := countFound(found)
	gauge(runningPods, running)
	for state, n := range states {
		gauge(runningContainers, n, state)
	}
	workers := c.agent.workers.All()
	desired := c.agent.countDesired(workers)
	for _, static := range []bool{false, true} {
		label := kubeletmetrics.StaticLabel(static)
		gauge(desiredPods, desired.pods[static], label)
		gauge(activePods, desired.active[static], label)
	}
	gauge(ephemerals, desired.ephemerals)
	for key, n := range desired.pending {
		gauge(pendingResizes, n, key.reason, key.priority)
	}
	gauge(startedResizes, desired.resizing)
	working, failing := countWorking(workers)
	for key, n := range working {
		gauge(workingPods, n, key.lifecycle, key.config, key.static)
	}
	gauge(unswept, failing)
}

// countFound returns the pods with a running sandbox, and the containers by state.
func countFound(pods []*observed.Pod) (running int, states map[string]int) {
	names := map[observed.State]string{
		observed.Created: "created", observed.Running: "running", observed.Exited: "exited", observed.Unknown: "unknown",
	}
	states = map[string]int{}
	for _, name := range names {
		states[name] = 0
	}
	for _, pod := range pods {
		if pod.ReadySandbox() != nil {
			running++
		}
		for i := range pod.Containers {
			states[names[pod.Containers[i].State]]++
		}
	}
	return running, states
}

// desiredCount are numbers of desired pods, by whether they are static.
type desiredCount struct {
	pods, active         map[bool]int
	ephemerals, resizing int
	pending              map[pendingKey]int
}

type pendingKey struct{ reason, priority string }

func (a *Agent) countDesired(workers []worker.Status) desiredCount {
	out := desiredCount{pods: map[bool]int{}, active: map[bool]int{}, pending: map[pendingKey]int{}}
	ending := map[string]bool{}
	for i := range workers {
		ending[string(workers[i].UID())] = workers[i].State >= worker.Terminating
	}
	for _, pod := range a.pods.All() {
		static, last := podmeta.IsStatic(pod), a.lastStatus(pod)
		out.pods[static]++
		out.ephemerals += len(pod.Spec.EphemeralContainers)
		if !ending[string(pod.UID)] && (last == nil || !podmeta.IsTerminal(last.Phase)) {
			out.active[static]++
		}
		if c := conditionOf(last, v1.PodResizePending); c != nil {
			out.pending[pendingKey{strings.ToLower(c.Reason), kubeletmetrics.PriorityLabel(pod.Spec.Priority)}]++
		}
		if conditionOf(last, v1.PodResizeInProgress) != nil {
			out.resizing++
		}
	}
	return out
}

type workingKey struct{ lifecycle, config, static string }

// countWorking returns the pods with a worker, and how many of the workers that only remove a directory fail.
func countWorking(workers []worker.Status) (counts map[workingKey]int, failing int) {
	counts = map[workingKey]int{}
	for _, lifecycle := range []string{"sync", "terminating", "terminated"} {
		for _, config := range []string{"desired", "orphan"} {
			counts[workingKey{lifecycle, config, ""}], counts[workingKey{lifecycle, config, "true"}] = 0, 0
		}
		counts[workingKey{lifecycle, "runtime_only", "unknown"}] = 0
	}
	for i := range workers {
		w := &workers[i]
		key := workingKey{lifecycle: "terminated", config: "desired", static: kubeletmetrics.StaticLabel(podmeta.IsStatic(w.Pod))}
		switch {
		case w.State <= worker.Syncing:
			key.lifecycle = "sync"
		case w.State == worker.Terminating:
			key.lifecycle = "terminating"
		}
		switch {
		case w.Removed && len(w.Pod.Spec.Containers) == 0:
			// It was found in the runtime or on the disk.
			key.config, key.static = "runtime_only", "unknown"
		case w.Removed:
			key.config = "orphan"
		}
		counts[key]++
		if w.Pod.Name == "" && w.Err != nil {
			failing++
		}
	}
	return counts, failing
}
