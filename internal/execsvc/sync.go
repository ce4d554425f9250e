package execsvc

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	"github.com/podstream/podstream/internal/execsvc/decide/actions"
	"github.com/podstream/podstream/internal/execsvc/decide/admission"
	"github.com/podstream/podstream/internal/execsvc/decide/status"
	"github.com/podstream/podstream/internal/execsvc/loop/worker"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/objects"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/setup/cgroup"
	"github.com/podstream/podstream/internal/execsvc/setup/volume"
)

// SyncPod is part of worker.Syncer. Its span has the kubelet's name.
func (a *Agent) SyncPod(ctx context.Context, pod *v1.Pod) (worker.Result, error) {
	ctx, end := a.cfg.Traces.Start(ctx, "syncPod", pod)
	result, err := a.syncPod(ctx, pod)
	end(err == nil && !result.Again && !result.Waiting && result.RetryAfter == 0, err)
	return result, err
}

// syncPod syncs a pod. The order of its steps is the kubelet's: it admits the pod, sets its status, checks its deadline,
// prepares the node for it, and syncs its containers.
func (a *Agent) syncPod(ctx context.Context, pod *v1.Pod) (worker.Result, error) {
	has, err := a.current(ctx, pod)
	if err != nil {
		return worker.Result{}, err
	}
	if a.rejectedForGood(pod) && !has.Active() {
		a.release(pod.UID)
		return worker.Result{Rejected: true}, nil
	}
	a.settleRestart(pod, has)
	decision, verdict := a.check(ctx, pod, has)
	switch {
	case len(verdict.Rejected) > 0:
		return worker.Result{Rejected: true}, a.reject(pod, verdict.Verdict)
	case len(verdict.Awaited) > 0:
		return worker.Result{Transient: true}, a.preempt(pod, verdict)
	}
	pod = decision.Pod
	a.noteAdmitted(pod, &verdict)
	// Before the first status: no pod loses its readiness by a restart of podexecd.
	a.probes.Set(pod, a.lastStatus(pod))
	sizing := resizeOf(decision, verdict.Resizing)
	now := a.setStatus(pod, func(in *status.Input) { in.Resize = sizing })
	if podmeta.IsTerminal(now.Phase) {
		return worker.Result{Terminal: true}, nil
	}
	if decision.Begun {
		// The allocation must be on disk before a container has it. If the store can't be written, the resize goes on
		// all the same.
		_ = a.cfg.Store.Flush(ctx)
	}
	left, failure := a.deadline(pod, now)
	if failure != nil {
		a.cfg.Events.Record(pod, "", events.Normal, events.DeadlineExceeded, failure.Message)
		return worker.Result{Failure: failure}, nil
	}
	s := podSync{pod: pod, has: has, verdict: &verdict, sizing: sizing, wakeAfter: left}
	if result, err := a.prepare(ctx, s); err != nil || result.Failure != nil {
		return result, err
	}
	return a.syncContainers(ctx, s)
}

// podSync is the sync of an admitted pod that may run now.
type podSync struct {
	pod     *v1.Pod
	has     *observed.Pod
	verdict *admission.Verdict
	sizing  *status.Resize
	// wakeAfter is the time that is left until the pod's deadline. Zero: it has none.
	wakeAfter time.Duration
}

// prepare makes what the pod's containers need: the network of the node, and the pod's volumes and cgroup. While
// something is missing, it returns an error and the result of the sync. A pod that must fail has a result with its Failure.
func (a *Agent) prepare(ctx context.Context, s podSync) (worker.Result, error) {
	if lacks := s.verdict.Waiting(s.has.ReadySandbox() != nil); len(lacks) > 0 {
		return worker.Result{WakeAfter: s.wakeAfter}, a.waitFor(s.pod, lacks)
	}
	if a.networkDown.Load() && needsNetwork(s.pod, s.has) {
		if err := a.checkNetwork(ctx, s.pod); err != nil {
			return worker.Result{WakeAfter: s.wakeAfter}, err
		}
	}
	if s.has.ReadySandbox() == nil {
		// The pod's share is in its QoS cgroup before it runs, as with the kubelet. Housekeeping repeats what fails, and
		// reports it.
		_ = a.balanceCgroups()
	}
	if err := a.cfg.PodSetup.SetUp(ctx, s.pod); err != nil {
		if failure := a.exhausted(s.pod, s.has, err); failure != nil {
			return worker.Result{Failure: failure}, nil
		}
		a.setUpFailed(s.pod, err)
		return worker.Result{Transient: transient(err), WakeAfter: s.wakeAfter}, err
	}
	return worker.Result{}, nil
}

// syncContainers makes the sandbox and the containers as desired, then ends a resize and sets the status.
func (a *Agent) syncContainers(ctx context.Context, s podSync) (worker.Result, error) {
	pod, has := s.pod, s.has
	defer a.pleg.Act(pod.UID)()
	a.cfg.Images.ReportSecrets(pod)
	res := a.cfg.Runtime.SyncPod(ctx, runtime.SyncInput{
		Pod: pod, Has: has, Probes: a.probes.Probes(pod.UID), Setup: a.cfg.PodSetup, Resizing: s.sizing.InProgress,
		Lacks: s.verdict.Containers(),
		// If the store can't be written, the containers are replaced all the same.
		Replacing: func(ctx context.Context, ids []string) { _ = a.cfg.Store.SetReplaced(ctx, pod.UID, ids) },
		Requested: a.restarts.Of(pod.UID),
		Signaled:  func(id string, begun time.Time) { a.cfg.Store.SetRestartStopping(pod.UID, id, begun) },
	})
	res.Err = errors.Join(res.Err, heldBack(s.verdict.Held))
	result := worker.Result{RetryAfter: res.RetryAfter, WakeAfter: s.wakeAfter, Waiting: len(res.Waiting) > 0}
	if res.Acted {
		// The status has the changes at once, not after the next relist.
		var err error
		if has, err = a.pleg.Refresh(ctx, pod.UID); err != nil {
			return result, errors.Join(res.Err, err)
		}
		a.probes.Set(pod, nil)
		a.settleRestart(pod, has)
	}
	settled := a.cfg.PodSetup.ResizeCgroup(pod)
	res.Err = errors.Join(res.Err, settled)
	sizing := resizeAfter(s.sizing, res, settled)
	a.finishResize(ctx, pod, has, s.sizing, sizing)
	now := a.setStatus(pod, func(in *status.Input) { in.Waiting, in.Resize = res.Waiting, sizing })
	if res.Err == nil && podmeta.IsTerminal(now.Phase) {
		return worker.Result{Terminal: true}, nil
	}
	if res.Err != nil && needsNetwork(pod, has) {
		return result, errors.Join(res.Err, a.checkNetwork(ctx, pod))
	}
	result.Again, result.Transient = res.Acted && a.moreToDo(pod, has, res), transient(res.Err)
	return result, res.Err
}

// setUpFailed sets the pod's containers waiting, and records an event for each error except missing objects: these are
// streamed separately, and usually arrive soon.
func (a *Agent) setUpFailed(pod *v1.Pod, err error) {
	a.observe(pod, allWaiting(pod, "ContainerCreating", err.Error()))
	for _, each := range parts(err) {
		if !errors.Is(each, objects.ErrUnknown) {
			a.cfg.Events.Record(pod, "", events.Warning, setUpReason(each), each.Error())
		}
	}
}

// setUpReason returns the reason of the event for an error of the pod's setup.
func setUpReason(err error) string {
	if _, ok := errors.AsType[*cgroup.MakeError](err); ok {
		return events.FailedCreatePodContainer
	}
	if e, ok := errors.AsType[*volume.OperationError](err); ok && strings.HasPrefix(e.Operation, "MapVolume.") {
		return events.FailedMapVolume
	}
	return events.FailedMountVolume
}

// moreToDo reports whether the pod changed during the sync, for example because a container exited at once. No event
// follows, because the second reading of the pod has the change already.
func (a *Agent) moreToDo(pod *v1.Pod, has *observed.Pod, res runtime.SyncResult) bool {
	next := actions.Compute(actions.Input{Pod: pod, Has: has, Probes: a.probes.Probes(pod.UID), Requested: a.restarts.Of(pod.UID)})
	start := next.Start
	if next.RestartAll != nil {
		start = append(start, *next.RestartAll)
	}
	return slices.ContainsFunc(start, func(s actions.Start) bool {
		_, waits := res.Waiting[s.Container.Name]
		return !waits
	})
}

// deadline returns how long the pod may still be active by its activeDeadlineSeconds, or why it must end now. Zero: it
// has no deadline.
func (a *Agent) deadline(pod *v1.Pod, now *v1.PodStatus) (left time.Duration, failure *status.Failure) {
	if pod.Spec.ActiveDeadlineSeconds == nil || now.StartTime == nil {
		return 0, nil
	}
	at := a.cfg.Clock.Now()
	if left, _ = podmeta.ActiveLeft(pod, a.started.Of(string(pod.UID), at, now.StartTime.Time), at); left > 0 {
		return left, nil
	}
	return 0, &status.Failure{Reason: events.DeadlineExceeded, Message: "Pod was active on the node longer than the specified deadline"}
}

// transient reports whether the only cause of the error are objects that haven't arrived yet.
func transient(err error) bool {
	return !slices.ContainsFunc(parts(err), func(part error) bool { return !errors.Is(part, objects.ErrUnknown) })
}

// parts returns the errors that were joined, also in several steps.
func parts(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error }) // An error that wraps a join has a message of its own.
	if !ok {
		return []error{err}
	}
	var all []error
	for _, each := range joined.Unwrap() {
		all = append(all, parts(each)...)
	}
	return all
}
