package podsummary

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// WaitReasons returns the reasons for which the pod waits, one sentence each, the nearest cause first. The list is
// never empty.
func (p *Pod) WaitReasons(have Answered, now time.Time) []string {
	if p.Observed == nil {
		return []string{p.reasonUnobserved(have)}
	}
	out := slices.Concat(p.workerReasons(now), p.statusReasons(now))
	if len(out) > 0 {
		return out
	}
	return []string{p.noReason(have)}
}

// reasonUnobserved returns why podexecd doesn't have the pod.
func (p *Pod) reasonUnobserved(have Answered) string {
	switch {
	case !have.Podexecd:
		return "That can't be told, as podexecd didn't answer."
	case p.mirror():
		return "It doesn't: it only shows a static pod to the API server, which runs under a UID of its own."
	case p.Desired.GetStale():
		return fmt.Sprintf("podexecd doesn't have it yet. podconfigd knows it from its store only: source %s isn't ready yet.", p.Source())
	default:
		return "podexecd doesn't have it yet: it may be away from podconfigd, or have refused the pod; see `podctl consumers`."
	}
}

// workerReasons returns the reasons of podexecd's worker.
func (p *Pod) workerReasons(now time.Time) []string {
	o := p.Observed
	var out []string
	switch o.GetWorkerState() {
	case podexecv1.WorkerState_WORKER_STATE_TERMINATING:
		out = append(out, "It is being ended: its containers are given the time to stop.")
	case podexecv1.WorkerState_WORKER_STATE_TERMINATED:
		out = append(out, "Its containers have stopped; what it left is being cleaned up.")
	}
	if what := o.GetWaitsFor(); what != "" {
		out = append(out, sentence("It waits for: "+what))
	}
	for _, pull := range o.GetPulls() {
		out = append(out, pullText(pull, now))
	}
	if last := o.GetLastError(); last != "" {
		out = append(out, sentence("The last attempt failed: "+last))
	}
	if retry := o.GetRetryTime(); retry != nil {
		if in := retry.AsTime().Sub(now); in > 0 {
			out = append(out, fmt.Sprintf("podexecd tries again in %s, at %s.",
				duration.HumanDuration(in), retry.AsTime().UTC().Format(time.TimeOnly)))
		} else {
			out = append(out, "podexecd is about to try again.")
		}
	}
	return out
}

// sentence adds a full stop unless the text has one.
func sentence(text string) string { return strings.TrimSuffix(text, ".") + "." }

func pullText(p *podexecv1.ImagePull, now time.Time) string {
	if p.GetStartedTime() != nil {
		text := fmt.Sprintf("Image %s is being pulled, for %s now", p.GetImage(), Age(now, p.GetStartedTime()))
		if progress := PullProgress(p.GetProgress()); progress != "" {
			text += ": " + progress
		}
		return text + "."
	}
	return fmt.Sprintf("Image %s waits for other pulls to end, for %s now.", p.GetImage(), cmp.Or(Age(now, p.GetAskedTime()), "some time"))
}

// statusReasons returns the reasons in the pod's status.
func (p *Pod) statusReasons(now time.Time) []string {
	s := p.Status
	if s == nil {
		return []string{"Its status can't be read by this podctl."}
	}
	if s.Phase == corev1.PodSucceeded || s.Phase == corev1.PodFailed {
		return nil
	}
	var out []string
	sidecar := sidecarTest(nil)
	if p.Content != nil {
		sidecar = sidecarTest(&p.Content.Spec)
	}
	for i := range s.InitContainerStatuses {
		c := &s.InitContainerStatuses[i]
		if _, done := initProgress(c, sidecar(c)); !done {
			// Later containers can't have started.
			return append(out, containerReasons("Init container", c, now)...)
		}
		if sidecar(c) {
			out = append(out, containerReasons("Sidecar", c, now)...)
		}
	}
	for i := range s.ContainerStatuses {
		out = append(out, containerReasons("Container", &s.ContainerStatuses[i], now)...)
	}
	if len(out) == 0 {
		out = gateReasons(p.Content, s)
	}
	return out
}

// containerReasons returns the reason for which a container waits, if any.
func containerReasons(kind string, c *corev1.ContainerStatus, now time.Time) []string {
	name := kind + " " + c.Name
	switch {
	case c.State.Waiting != nil:
		text := fmt.Sprintf("%s waits: %s", name, cmp.Or(c.State.Waiting.Reason, "no reason is given"))
		if message := c.State.Waiting.Message; message != "" {
			text += ": " + message
		}
		text = sentence(text)
		if last := c.LastTerminationState.Terminated; last != nil {
			text += fmt.Sprintf(" It ended %s ago with %s; see `podctl logs`.",
				duration.HumanDuration(now.Sub(last.FinishedAt.Time)), exitText(last))
		}
		return []string{text}
	case c.State.Terminated != nil:
		return []string{fmt.Sprintf("%s has ended with %s.", name, exitText(c.State.Terminated))}
	case c.State.Running == nil:
		return []string{name + " hasn't been made yet."}
	case kind == "Init container":
		return []string{fmt.Sprintf("%s runs; what comes after it waits for its end.", name)}
	case c.Started != nil && !*c.Started:
		return []string{name + " runs, and hasn't started by its startup probe's word."}
	case !c.Ready:
		return []string{name + " runs, and isn't ready by its readiness probe's word."}
	default:
		return nil
	}
}

// exitText returns how a container ended.
func exitText(t *corev1.ContainerStateTerminated) string {
	text := fmt.Sprintf("exit code %d", t.ExitCode)
	if t.Signal != 0 {
		text = fmt.Sprintf("signal %d", t.Signal)
	}
	if t.Reason != "" {
		text += " (" + t.Reason + ")"
	}
	return text
}

// gateReasons returns the readiness gates that aren't met.
func gateReasons(pod *corev1.Pod, s *corev1.PodStatus) []string {
	if pod == nil {
		return nil
	}
	var out []string
	for _, gate := range pod.Spec.ReadinessGates {
		if !conditionTrue(s, gate.ConditionType) {
			out = append(out, fmt.Sprintf("Its readiness gate %s isn't met: no controller has set that condition.", gate.ConditionType))
		}
	}
	return out
}

// noReason returns the sentence for a pod that waits for nothing.
func (p *Pod) noReason(have Answered) string {
	unwanted := p.Desired == nil && (have.Podconfigd || !p.Observed.GetDesired())
	switch phase := p.Status.Phase; {
	case phase == corev1.PodSucceeded:
		return "It doesn't: all of its containers have ended well."
	case phase == corev1.PodFailed:
		text := "It doesn't: it has failed, and isn't tried again."
		if p.Status.Reason != "" {
			text += fmt.Sprintf(" The reason is %s", p.Status.Reason)
			if p.Status.Message != "" {
				text += ": " + p.Status.Message
			}
			text = sentence(text)
		}
		return text
	case unwanted:
		return "It runs, and no source wants it: it is ended once its source is ready."
	case phase == corev1.PodRunning:
		return "It doesn't: its containers run, and are ready."
	default:
		return "Nothing is known of it yet: podexecd has only begun."
	}
}
