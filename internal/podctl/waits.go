package podctl

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

// waits says in plain words why the pod isn't further, one sentence a reason, the nearest cause first. It always says something.
func (p *pair) waits(have answered, now time.Time) []string {
	if p.observed == nil {
		return []string{p.unobserved(have)}
	}
	out := slices.Concat(p.workerWaits(now), p.statusWaits(now))
	if len(out) > 0 {
		return out
	}
	return []string{p.contentment(have)}
}

// unobserved is why podexecd has nothing of the pod.
func (p *pair) unobserved(have answered) string {
	switch {
	case !have.podexecd:
		return "That can't be told, as podexecd didn't answer."
	case p.mirror():
		return "It doesn't: it only shows a static pod to the API server, which runs under a UID of its own."
	case p.desired.GetStale():
		return fmt.Sprintf("podexecd doesn't have it yet. podconfigd knows it from its store only: source %s hasn't spoken yet.", p.source())
	default:
		return "podexecd doesn't have it yet: it may be away from podconfigd, or have refused the pod; see `podctl consumers`."
	}
}

// workerWaits are what podexecd's worker says.
func (p *pair) workerWaits(now time.Time) []string {
	o := p.observed
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

// sentence ends a text that may have its full stop already.
func sentence(text string) string { return strings.TrimSuffix(text, ".") + "." }

func pullText(p *podexecv1.ImagePull, now time.Time) string {
	if p.GetStartedTime() != nil {
		return fmt.Sprintf("Image %s is being pulled, for %s now.", p.GetImage(), ageOf(now, p.GetStartedTime()))
	}
	return fmt.Sprintf("Image %s waits for other pulls to end, for %s now.", p.GetImage(), cmp.Or(ageOf(now, p.GetAskedTime()), "some time"))
}

// statusWaits are what the pod's status says.
func (p *pair) statusWaits(now time.Time) []string {
	s := p.status
	if s == nil {
		return []string{"Its status can't be read by this podctl."}
	}
	if s.Phase == corev1.PodSucceeded || s.Phase == corev1.PodFailed {
		return nil
	}
	var out []string
	sidecar := sidecarTest(nil)
	if p.pod != nil {
		sidecar = sidecarTest(&p.pod.Spec)
	}
	for i := range s.InitContainerStatuses {
		c := &s.InitContainerStatuses[i]
		if _, done := initProgress(c, sidecar(c)); !done {
			// Those after it have nothing to say of their own.
			return append(out, containerWaits("Init container", c, now)...)
		}
		if sidecar(c) {
			out = append(out, containerWaits("Sidecar", c, now)...)
		}
	}
	for i := range s.ContainerStatuses {
		out = append(out, containerWaits("Container", &s.ContainerStatuses[i], now)...)
	}
	if len(out) == 0 {
		out = gateWaits(p.pod, s)
	}
	return out
}

// containerWaits is what keeps one container, if anything does.
func containerWaits(kind string, c *corev1.ContainerStatus, now time.Time) []string {
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

// exitText is how a container ended.
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

// gateWaits are the readiness gates that aren't met.
func gateWaits(pod *corev1.Pod, s *corev1.PodStatus) []string {
	if pod == nil {
		return nil
	}
	var out []string
	for _, gate := range pod.Spec.ReadinessGates {
		if !conditionTrue(s, gate.ConditionType) {
			out = append(out, fmt.Sprintf("Its readiness gate %s isn't met: whoever sets that condition hasn't set it.", gate.ConditionType))
		}
	}
	return out
}

// contentment is said of a pod that waits for nothing.
func (p *pair) contentment(have answered) string {
	unwanted := p.desired == nil && (have.podconfigd || !p.observed.GetDesired())
	switch phase := p.status.Phase; {
	case phase == corev1.PodSucceeded:
		return "It doesn't: all of its containers have ended well."
	case phase == corev1.PodFailed:
		text := "It doesn't: it has failed, and isn't tried again."
		if p.status.Reason != "" {
			text += fmt.Sprintf(" The reason is %s", p.status.Reason)
			if p.status.Message != "" {
				text += ": " + p.status.Message
			}
			text = sentence(text)
		}
		return text
	case unwanted:
		return "It runs, and no source wants it: it is ended once its source has spoken."
	case phase == corev1.PodRunning:
		return "It doesn't: its containers run, and are ready."
	default:
		return "Nothing is known of it yet: podexecd has only begun."
	}
}
