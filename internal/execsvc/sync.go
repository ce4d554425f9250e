package execsvc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/actions"
	"github.com/podstream/podstream/internal/execsvc/admit"
	"github.com/podstream/podstream/internal/execsvc/events"
	"github.com/podstream/podstream/internal/execsvc/objects"
	"github.com/podstream/podstream/internal/execsvc/observed"
	"github.com/podstream/podstream/internal/execsvc/runtime"
	"github.com/podstream/podstream/internal/execsvc/status"
	"github.com/podstream/podstream/internal/execsvc/worker"
)

// rejected begins the message of a pod that was refused, as in the kubelet.
const rejected = "Pod was rejected: "

// SyncPod is part of worker.Syncer. The order of its steps is the kubelet's.
func (a *Agent) SyncPod(ctx context.Context, pod *v1.Pod) (worker.Result, error) {
	has, err := a.pleg.Current(ctx, pod.UID)
	if err != nil {
		return worker.Result{}, err
	}
	if a.rejectedForGood(pod) && !has.Active() {
		a.madeRoom(pod.UID)
		return worker.Result{Refused: true}, nil
	}
	decision, verdict := a.admission.check(pod, a.cfg.Node(), has, a.lastStatus(pod))
	if len(verdict.Refused) > 0 {
		return worker.Result{Refused: true}, a.refuse(pod, has, verdict.Verdict)
	} else if len(verdict.awaited) > 0 {
		return worker.Result{Passing: true}, a.preempt(pod, verdict)
	} else if _, seen := a.statuses.Get(pod.UID); !seen && len(verdict.Ignored) > 0 {
		a.log.Warn("pod sets fields that this version doesn't act upon; it runs without them",
			"pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID, "fields", verdict.Ignored)
	}
	pod = decision.Pod
	a.tellRefused(a.refused.clear(pod.UID))
	if last, ok := a.statuses.Get(pod.UID); ok && strings.HasPrefix(last.Status.Message, rejected) {
		// It was changed into what can run: that it was refused before is over.
		a.statuses.Delete(pod.UID)
	}
	// Before the first look: a restart of this agent takes readiness away from nobody.
	a.probes.Set(pod, a.lastStatus(pod))
	sizing := resizeOf(decision, verdict.resizing)
	now := a.keep(pod, func(in *status.Input) { in.Resize = sizing })
	if terminal(now) {
		return worker.Result{Terminal: true}, nil
	}
	if decision.Begun {
		// The next life has to know what was allocated before anything has it. If the store can't be written, the resize goes on all the same.
		_ = a.cfg.Store.Flush(ctx)
	}
	left, failure := deadline(pod, now, a.cfg.Clock.Now())
	if failure != nil {
		a.cfg.Events.Record(pod, "", events.Normal, events.DeadlineExceeded, failure.Message)
		return worker.Result{Failure: failure}, nil
	}
	if a.networkDown.Load() && needsNetwork(pod, has) {
		if err := a.checkNetwork(ctx, pod); err != nil {
			return worker.Result{WakeAfter: left}, err
		}
	}
	if err := a.cfg.World.SetUp(ctx, pod); err != nil {
		a.observe(pod, allWaiting(pod, "ContainerCreating", err.Error()))
		for _, each := range parts(err) {
			if errors.Is(each, objects.ErrUnknown) {
				continue // it comes by a stream of its own, mostly in a moment
			}
			a.cfg.Events.Record(pod, "", events.Warning, events.FailedMountVolume, each.Error())
		}
		return worker.Result{Passing: passing(err), WakeAfter: left}, err
	}
	defer a.pleg.Act(pod.UID)()
	res := a.cfg.Runtime.SyncPod(ctx, runtime.SyncInput{
		Pod: pod, Has: has, Probes: a.probes.Probes(pod.UID), World: a.cfg.World, Resizing: sizing.InProgress,
	})
	result := worker.Result{RetryAfter: res.RetryAfter, WakeAfter: left}
	if res.Acted {
		// What was done shows at once, not at the next relist.
		if has, err = a.pleg.Refresh(ctx, pod.UID); err != nil {
			return result, errors.Join(res.Err, err)
		}
		a.probes.Set(pod, nil)
	}
	settled := a.cfg.World.Settle(pod)
	res.Err = errors.Join(res.Err, settled)
	wasSizing := sizing
	sizing = resized(sizing, res, settled)
	a.finishResize(ctx, pod, has, wasSizing, sizing)
	now = a.keep(pod, func(in *status.Input) { in.Waiting, in.Resize = res.Waiting, sizing })
	if res.Err == nil && terminal(now) {
		return worker.Result{Terminal: true}, nil
	}
	if res.Err != nil && needsNetwork(pod, has) {
		return result, errors.Join(res.Err, a.checkNetwork(ctx, pod))
	}
	result.Again, result.Passing = res.Acted && a.moreToDo(pod, has, res), passing(res.Err)
	return result, res.Err
}

// moreToDo tells whether something happened while the pod was synced that no event will tell of, as the second reading has
// seen it already: a container that ended at once, say.
func (a *Agent) moreToDo(pod *v1.Pod, has *observed.Pod, res runtime.SyncResult) bool {
	next := actions.Compute(actions.Input{Pod: pod, Has: has, Probes: a.probes.Probes(pod.UID)})
	start := next.Start
	if next.RestartAll != nil {
		start = append(start, *next.RestartAll)
	}
	return slices.ContainsFunc(start, func(s actions.Start) bool {
		_, waits := res.Waiting[s.Container.Name]
		return !waits
	})
}

// deadline is how long the pod may still be active, by its activeDeadlineSeconds, or why it must end now. Zero: as long as it likes.
func deadline(pod *v1.Pod, now *v1.PodStatus, at time.Time) (left time.Duration, failure *status.Failure) {
	if pod.Spec.ActiveDeadlineSeconds == nil || now.StartTime == nil {
		return 0, nil
	}
	left = now.StartTime.Add(time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second).Sub(at)
	if left > 0 {
		return left, nil
	}
	return 0, &status.Failure{Reason: events.DeadlineExceeded, Message: "Pod was active on the node longer than the specified deadline"}
}

func (a *Agent) lastStatus(pod *v1.Pod) *v1.PodStatus {
	if last, ok := a.statuses.Get(pod.UID); ok {
		return last.Status
	}
	return nil
}

// observe makes the pod's status from what the runtime has, and keeps it.
func (a *Agent) observe(pod *v1.Pod, waiting map[string]observed.Waiting) {
	a.keep(pod, func(in *status.Input) { in.Waiting = waiting })
}

// keep makes the pod's status from all that is known now, and from what more says, and keeps it.
func (a *Agent) keep(pod *v1.Pod, more func(*status.Input)) *v1.PodStatus {
	pod = a.admission.allocated(pod)
	hosts := a.cfg.HostIPs()
	var before *v1.PodStatus
	now, changed := a.statuses.Update(pod, func(previous *v1.PodStatus) v1.PodStatus {
		before = previous
		in := status.Input{
			Pod: pod, Runtime: a.pleg.Get(pod.UID), Probes: a.probes.Probes(pod.UID), Previous: previous,
			Now: a.cfg.Clock.Now(), HostIPs: hosts, RuntimeName: a.cfg.RuntimeName,
		}
		more(&in)
		return status.Generate(in)
	})
	if changed {
		a.tellResize(pod, before, now)
	}
	return now
}

// refuse marks a pod failed that this version can't run as it was meant. A pod that has been started before, and was changed
// into such a one, goes on as it is; the error says so.
func (a *Agent) refuse(pod *v1.Pod, has *observed.Pod, verdict admit.Verdict) error {
	var messages []string
	for _, r := range verdict.Refused {
		messages = append(messages, r.Message)
	}
	reason, message := verdict.Refused[0].Reason, strings.Join(messages, "; ")
	news := a.refused.set(pod, reason, message)
	defer a.tellRefused(news)
	if has.Active() {
		a.observe(pod, nil)
		return fmt.Errorf("%s: the pod can't become what it was changed to and goes on as it was: %s", reason, message)
	}
	if news {
		a.log.Error("pod is refused", "pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID, "reason", reason, "message", message)
		a.cfg.Events.Record(pod, "", events.Warning, reason, message)
	}
	a.keep(pod, func(in *status.Input) { in.Failure = &status.Failure{Reason: reason, Message: rejected + message} })
	if a.cfg.Final(pod) {
		// Another pod's turn mustn't give it room any more.
		a.madeRoom(pod.UID)
	}
	return nil
}

// rejectedForGood tells whether the pod was refused, and stays so, as others act on it: a controller that has made another pod in its place.
// Once the API server has heard of it the pod's own status says that it has ended.
func (a *Agent) rejectedForGood(pod *v1.Pod) bool {
	last := a.lastStatus(pod)
	return a.cfg.Final(pod) && last != nil && strings.HasPrefix(last.Message, rejected) && !terminal(&pod.Status)
}

// passing tells whether there is nothing wrong but that objects haven't come yet.
func passing(err error) bool {
	return !slices.ContainsFunc(parts(err), func(part error) bool { return !errors.Is(part, objects.ErrUnknown) })
}

// parts are the errors that were joined, also in several steps.
func parts(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error }) // one that wraps it says more
	if !ok {
		return []error{err}
	}
	var all []error
	for _, each := range joined.Unwrap() {
		all = append(all, parts(each)...)
	}
	return all
}

func terminal(s *v1.PodStatus) bool { return s.Phase == v1.PodSucceeded || s.Phase == v1.PodFailed }

func allWaiting(pod *v1.Pod, reason, message string) map[string]observed.Waiting {
	out := map[string]observed.Waiting{}
	for i := range pod.Spec.Containers {
		out[pod.Spec.Containers[i].Name] = observed.Waiting{Reason: reason, Message: message}
	}
	return out
}
