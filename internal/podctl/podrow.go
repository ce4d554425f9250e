package podctl

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// The status words that aren't Kubernetes' own.
const (
	// statusNotStarted: podexecd doesn't know the pod yet.
	statusNotStarted = "NotStarted"
	// statusOrphan: the pod runs and no source wants it.
	statusOrphan = "Orphan"
	// statusMirror: the pod is a static pod's image at the API server.
	statusMirror = "Mirror"
	// statusUndecodable: podexecd sent a status that podctl can't read.
	statusUndecodable = "Undecodable"
	statusTerminating = "Terminating"
)

// answered tells which daemons gave their half: what is missing means something only then.
type answered struct{ podconfigd, podexecd bool }

// podRow is what `podctl pods` says of one pod. Empty means that it isn't known.
type podRow struct {
	status, ready, restarts, age string
	ip, worker, message          string
}

// row condenses a pair.
func (p *pair) row(have answered, now time.Time) podRow {
	r := podRow{age: p.age(now), message: p.message()}
	if p.observed == nil {
		switch {
		case p.mirror():
			r.status = statusMirror
		case have.podexecd:
			r.status = statusNotStarted
			if p.pod != nil {
				r.ready, r.restarts = fmt.Sprintf("0/%d", specTotal(&p.pod.Spec)), "0"
			}
		}
		return r
	}
	r.worker = workerText(p.observed.GetWorkerState())
	if p.status == nil {
		r.status = statusUndecodable
		return r
	}
	var spec *corev1.PodSpec
	if p.pod != nil {
		spec = &p.pod.Spec
	}
	s := summarize(spec, p.status)
	r.status = cmp.Or(p.overridingStatus(have), s.status)
	r.ready = fmt.Sprintf("%d/%d", s.ready, s.total)
	r.restarts = strconv.Itoa(s.restarts)
	if s.restarts > 0 && !s.lastRestart.IsZero() {
		r.restarts += fmt.Sprintf(" (%s ago)", duration.HumanDuration(now.Sub(s.lastRestart)))
	}
	r.ip = p.status.PodIP
	return r
}

// overridingStatus is the word for an observed pod that goes before what its containers say; empty if there is none.
func (p *pair) overridingStatus(have answered) string {
	state := p.observed.GetWorkerState()
	phase := p.status.Phase
	terminal := phase == corev1.PodSucceeded || phase == corev1.PodFailed
	// Without podconfigd's half podexecd's own word has to do.
	unwanted := p.desired == nil && (have.podconfigd || !p.observed.GetDesired())
	switch {
	case state == podexecv1.WorkerState_WORKER_STATE_TERMINATING && !terminal,
		p.pod != nil && p.pod.DeletionTimestamp != nil && !terminal,
		// What is left of a pod that nobody wants is being cleaned up, whatever its end was.
		unwanted && (state == podexecv1.WorkerState_WORKER_STATE_TERMINATING ||
			state == podexecv1.WorkerState_WORKER_STATE_TERMINATED || state == podexecv1.WorkerState_WORKER_STATE_FINISHED):
		return statusTerminating
	case unwanted:
		return statusOrphan
	}
	return ""
}

// age is the time since the source first gave the pod or, if that isn't known, since it was started.
func (p *pair) age(now time.Time) string {
	if p.pod != nil {
		if seen, err := time.Parse(time.RFC3339Nano, p.pod.Annotations[seenAnnotation]); err == nil {
			return duration.HumanDuration(now.Sub(seen))
		}
	}
	if p.status != nil && p.status.StartTime != nil {
		return duration.HumanDuration(now.Sub(p.status.StartTime.Time))
	}
	return ""
}

// message says why the pod isn't further.
func (p *pair) message() string {
	if text := cmp.Or(p.observed.GetLastError(), p.observed.GetWaitsFor()); text != "" {
		return text
	}
	if p.status != nil {
		if p.status.Message != "" {
			return p.status.Message
		}
		for _, list := range [][]corev1.ContainerStatus{p.status.InitContainerStatuses, p.status.ContainerStatuses} {
			for i := range list {
				if w := list[i].State.Waiting; w != nil && w.Message != "" {
					return w.Message
				}
			}
		}
	}
	if p.desired.GetStale() {
		return fmt.Sprintf("known from the store: source %s hasn't spoken yet", p.desired.GetSource())
	}
	return ""
}
