package podsummary

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// The status words that aren't Kubernetes'.
const (
	// statusNotStarted: podexecd doesn't have the pod yet, or has done nothing for it.
	statusNotStarted = "NotStarted"
	// statusOrphan: the pod runs and isn't desired.
	statusOrphan = "Orphan"
	// statusMirror: the pod is a mirror pod.
	statusMirror = "Mirror"
	// statusUndecodable: podexecd sent a status that podctl can't read.
	statusUndecodable = "Undecodable"
	statusTerminating = "Terminating"
)

// statusesOfPulls are the words for a pod that may wait for a pull. Others, such as CrashLoopBackOff, are kept.
var statusesOfPulls = []string{string(corev1.PodPending), "ContainerCreating", "PodInitializing"}

// Answered names the daemons that answered. A missing half has a meaning only if its daemon answered.
type Answered struct{ Podconfigd, Podexecd bool }

// Row has the cells of one pod in `podctl pods`. Empty means unknown.
type Row struct {
	Status, Ready, Restarts, Age string
	IP, Worker, Message          string
	// restartCount is the number in restarts. Nil means unknown.
	restartCount *int
}

// Row returns the row of the pod.
func (p *Pod) Row(have Answered, now time.Time) Row {
	r := Row{Age: p.age(now), Message: p.message()}
	if p.Observed == nil {
		switch {
		case p.mirror():
			r.Status = statusMirror
		case have.Podexecd:
			r.Status = statusNotStarted
			if p.Content != nil {
				r.Ready, r.Restarts, r.restartCount = fmt.Sprintf("0/%d", specTotal(&p.Content.Spec)), "0", new(int)
			}
		}
		return r
	}
	r.Worker = workerText(p.Observed.GetWorkerState())
	if p.Status == nil {
		r.Status = statusUndecodable
		return r
	}
	var spec *corev1.PodSpec
	if p.Content != nil {
		spec = &p.Content.Spec
	}
	s := summarize(spec, p.Status)
	r.Status = cmp.Or(p.overridingStatus(have), s.status)
	if pulling := p.pulling(); pulling != "" && slices.Contains(statusesOfPulls, r.Status) {
		r.Status = pulling
	}
	if p.Status.Phase == "" && r.Status == string(corev1.PodUnknown) {
		// For instance, it waits for another pod of its name to end.
		r.Status = statusNotStarted
	}
	if s.total > 0 {
		r.Ready = fmt.Sprintf("%d/%d", s.ready, s.total)
	}
	r.Restarts, r.restartCount = strconv.Itoa(s.restarts), &s.restarts
	if s.restarts > 0 && !s.lastRestart.IsZero() {
		r.Restarts += fmt.Sprintf(" (%s ago)", duration.HumanDuration(now.Sub(s.lastRestart)))
	}
	r.IP = p.Status.PodIP
	return r
}

// overridingStatus returns the word that takes precedence over the containers' states; empty if there is none.
func (p *Pod) overridingStatus(have Answered) string {
	state := p.Observed.GetWorkerState()
	phase := p.Status.Phase
	terminal := phase == corev1.PodSucceeded || phase == corev1.PodFailed
	// Without podconfigd's half, podexecd's own record decides.
	unwanted := p.Desired == nil && (have.Podconfigd || !p.Observed.GetDesired())
	switch {
	case state == podexecv1.WorkerState_WORKER_STATE_TERMINATING && !terminal,
		p.Content != nil && p.Content.DeletionTimestamp != nil && !terminal,
		// The remains of a pod that isn't desired are being cleaned up, however it ended.
		unwanted && (state == podexecv1.WorkerState_WORKER_STATE_TERMINATING ||
			state == podexecv1.WorkerState_WORKER_STATE_TERMINATED || state == podexecv1.WorkerState_WORKER_STATE_FINISHED):
		return statusTerminating
	case unwanted:
		return statusOrphan
	}
	return ""
}

// age returns the time since p.Since.
func (p *Pod) age(now time.Time) string {
	since := p.Since()
	if since.IsZero() {
		return ""
	}
	return duration.HumanDuration(now.Sub(since))
}

// Since returns when the source first had the pod or, if that isn't known, when the pod was started. Zero means unknown.
func (p *Pod) Since() time.Time {
	if p.Content != nil {
		if seen, err := time.Parse(time.RFC3339Nano, p.Content.Annotations[SeenAnnotation]); err == nil {
			return seen
		}
	}
	if p.Status != nil && p.Status.StartTime != nil {
		return p.Status.StartTime.Time
	}
	return time.Time{}
}

// message returns why the pod makes no progress.
func (p *Pod) message() string {
	if text := cmp.Or(p.Observed.GetLastError(), p.Observed.GetWaitsFor()); text != "" {
		return text
	}
	if p.Status != nil {
		if p.Status.Message != "" {
			return p.Status.Message
		}
		for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
			for i := range list {
				if w := list[i].State.Waiting; w != nil && w.Message != "" {
					return w.Message
				}
			}
		}
	}
	if p.Desired.GetStale() {
		return fmt.Sprintf("known from the store: source %s isn't ready yet", p.Desired.GetSource())
	}
	return ""
}
