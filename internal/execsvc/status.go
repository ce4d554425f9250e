package execsvc

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	"github.com/podstream/podstream/internal/execsvc/decide/status"
	"github.com/podstream/podstream/internal/execsvc/loop/worker"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// current returns the pod's state in the runtime. If that can't be read, the pod can't be synced, and has an event,
// unless only the UID of its directory is known.
func (a *Agent) current(ctx context.Context, pod *v1.Pod) (*observed.Pod, error) {
	has, err := a.pleg.Current(ctx, pod.UID)
	if err != nil && ctx.Err() == nil && pod.Name != "" {
		a.cfg.Events.Record(pod, "", events.Warning, events.FailedSync, "error determining status: "+runtime.Answer(err).Error())
	}
	return has, err
}

// observe computes and stores the pod's status from what the runtime has. waiting are the containers that wait, by
// name.
func (a *Agent) observe(pod *v1.Pod, waiting map[string]observed.Waiting) {
	a.keep(pod, func(in *status.Input) { in.Waiting = waiting })
}

// keep computes and stores the pod's status from the current state and from more.
func (a *Agent) keep(pod *v1.Pod, more func(*status.Input)) {
	a.setStatus(a.admission.Allocated(pod), more)
}

// setStatus is keep for a pod that has the resources that it is allocated. A container that a relist shows is left out
// until its worker has read it: its start may not be finished, because its postStart hook runs.
func (a *Agent) setStatus(pod *v1.Pod, more func(*status.Input)) *v1.PodStatus {
	hosts := a.cfg.HostIPs()
	recursive := func() bool {
		node := a.cfg.Node()
		return node.RecursiveReadOnly(pod)
	}
	w, _ := a.workers.Get(pod.UID)
	ending := w.State == worker.Terminating && w.Termination.Failure != nil
	var before *v1.PodStatus
	now, changed := a.statuses.Update(pod, func(previous *v1.PodStatus) v1.PodStatus {
		before = previous
		in := status.Input{
			Pod: pod, Runtime: a.pleg.GetFull(pod.UID), Probes: a.probes.Probes(pod.UID), Previous: previous, Ending: ending,
			Requested: a.restarts.Of(pod.UID), Now: a.cfg.Clock.Now(), HostIPs: hosts, RuntimeName: a.cfg.RuntimeName, RecursiveReadOnly: recursive,
		}
		more(&in)
		return status.Generate(in)
	})
	if changed {
		a.countStatus(pod, before, now)
		a.recordResize(pod, before, now)
	}
	return now
}

// waitingBytes bounds the messages of all waiting containers of a pod together, unless each one has leastWaiting only.
const waitingBytes, leastWaiting = 64 << 10, 64

// allWaiting returns a waiting state for each of the pod's containers. Each one has the message, or its beginning: it
// grows with the pod's volumes, and would be there as often as the pod has containers.
func allWaiting(pod *v1.Pod, reason, message string) map[string]observed.Waiting {
	out := map[string]observed.Waiting{}
	message = events.Presentable(message)
	message = events.PresentableIn(message, max(waitingBytes/max(len(pod.Spec.Containers), 1), leastWaiting))
	for i := range pod.Spec.Containers {
		out[pod.Spec.Containers[i].Name] = observed.Waiting{Reason: reason, Message: message}
	}
	return out
}
