package execsvc

import (
	"context"
	"errors"
	"fmt"
	"github.com/podstream/podstream/internal/execsvc/actions"
	"github.com/podstream/podstream/internal/execsvc/observed"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/admit"
	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/runtime"
	"github.com/podstream/podstream/internal/execsvc/status"
	"github.com/podstream/podstream/internal/execsvc/worker"
)

// rejected begins the message of a pod that was refused, as in the kubelet.
const rejected = "Pod was rejected: "

// SyncPod is part of worker.Syncer. The order of its steps is the kubelet's.
func (a *Agent) SyncPod(ctx context.Context, pod *v1.Pod) (worker.Result, error) {
	has, err := a.pleg.Refresh(ctx, pod.UID)
	if err != nil {
		return worker.Result{}, err
	}
	if verdict := admit.Check(pod); len(verdict.Refused) > 0 {
		return worker.Result{Refused: true}, a.refuse(pod, has, verdict)
	} else if _, seen := a.statuses.Get(pod.UID); !seen && len(verdict.Ignored) > 0 {
		a.log.Warn("pod sets fields that this version doesn't act upon; it runs without them",
			"pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID, "fields", verdict.Ignored)
	}
	if last, ok := a.statuses.Get(pod.UID); ok && strings.HasPrefix(last.Status.Message, rejected) {
		// It was changed into what can run: that it was refused before is over.
		a.statuses.Delete(pod.UID)
	}
	if now := a.observe(pod, has, nil); terminal(now) {
		return worker.Result{Terminal: true}, nil
	}
	if err := a.cfg.Volumes.SetUp(ctx, pod); err != nil {
		a.observe(pod, has, allWaiting(pod, "ContainerCreating", err.Error()))
		return worker.Result{}, fmt.Errorf("set up volumes: %w", err)
	}
	res := a.cfg.Runtime.SyncPod(ctx, runtime.SyncInput{
		Pod: pod, Has: has,
		Mounts: func(c *v1.Container) ([]criconfig.Mount, error) { return a.cfg.Volumes.Mounts(pod, c) },
	})
	if res.Acted {
		// What was done shows at once, not at the next relist.
		if has, err = a.pleg.Refresh(ctx, pod.UID); err != nil {
			return worker.Result{RetryAfter: res.RetryAfter}, errors.Join(res.Err, err)
		}
	}
	if now := a.observe(pod, has, res.Waiting); res.Err == nil && terminal(now) {
		return worker.Result{Terminal: true}, nil
	}
	return worker.Result{Again: res.Acted && moreToStart(pod, has, res), RetryAfter: res.RetryAfter}, res.Err
}

// moreToStart tells whether something happened while the pod was synced that no event will tell of, as the second reading has
// seen it already: a container that ended at once, say.
func moreToStart(pod *v1.Pod, has *observed.Pod, res runtime.SyncResult) bool {
	next := actions.Compute(pod, has)
	return slices.ContainsFunc(next.Start, func(s actions.Start) bool {
		_, waits := res.Waiting[s.Container.Name]
		return !waits
	})
}

// SyncTerminatingPod is part of worker.Syncer.
func (a *Agent) SyncTerminatingPod(ctx context.Context, pod *v1.Pod, grace int64) error {
	has, err := a.pleg.Refresh(ctx, pod.UID)
	if err != nil {
		return err
	}
	a.observe(pod, has, nil)
	if err := a.cfg.Runtime.KillPod(ctx, has, grace); err != nil {
		return err
	}
	if has, err = a.pleg.Refresh(ctx, pod.UID); err != nil {
		return err
	}
	if has.Active() {
		return errors.New("something of the pod still runs after it was stopped")
	}
	in := a.input(pod)
	in.Runtime, in.Terminal = has, true
	a.keep(pod, in)
	return nil
}

// SyncTerminatedPod is part of worker.Syncer.
func (a *Agent) SyncTerminatedPod(ctx context.Context, pod *v1.Pod) error {
	// The directory goes last: by it the next life of this agent finds what is left.
	if a.pods.Get(pod.UID) == nil {
		remove := func() error { return a.cfg.Runtime.RemoveLogs(pod) }
		if pod.Name == "" {
			remove = func() error { return a.cfg.Runtime.RemoveLogsOf(pod.UID) }
		}
		if err := remove(); err != nil {
			return err
		}
	}
	if err := a.cfg.Volumes.TearDown(ctx, pod.UID); err != nil {
		return fmt.Errorf("tear down volumes: %w", err)
	}
	return nil
}

// PurgePod is part of worker.Syncer.
func (a *Agent) PurgePod(ctx context.Context, pod *v1.Pod) error {
	has, err := a.pleg.Refresh(ctx, pod.UID)
	if err != nil {
		return err
	}
	if err := a.cfg.Runtime.Purge(ctx, pod, has); err != nil {
		return err
	}
	if _, err := a.pleg.Refresh(ctx, pod.UID); err != nil {
		return err
	}
	a.statuses.Delete(pod.UID)
	a.log.Info("pod is gone", "pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID)
	return nil
}

// observe makes the pod's status from what the runtime has, and keeps it.
func (a *Agent) observe(pod *v1.Pod, has *observed.Pod, waiting map[string]runtime.Waiting) *v1.PodStatus {
	in := a.input(pod)
	in.Runtime, in.Waiting = has, waiting
	return a.keep(pod, in)
}

func (a *Agent) input(pod *v1.Pod) status.Input {
	return status.Input{Pod: pod, Now: a.cfg.Clock.Now(), HostIPs: a.cfg.HostIPs(), RuntimeName: a.cfg.RuntimeName}
}

func (a *Agent) keep(pod *v1.Pod, in status.Input) *v1.PodStatus {
	if last, ok := a.statuses.Get(pod.UID); ok {
		in.Previous = last.Status
	}
	now := status.Generate(in)
	a.statuses.Set(pod, &now)
	return &now
}

// refuse marks a pod failed that this version can't run as it was meant. A pod that has been started before, and was changed
// into such a one, goes on as it is; the error says so.
func (a *Agent) refuse(pod *v1.Pod, has *observed.Pod, verdict admit.Verdict) error {
	var messages []string
	for _, r := range verdict.Refused {
		messages = append(messages, r.Message)
	}
	reason, message := verdict.Refused[0].Reason, strings.Join(messages, "; ")
	if len(has.Containers) > 0 {
		a.observe(pod, has, nil)
		return fmt.Errorf("%s: the pod can't become what it was changed to and goes on as it was: %s", reason, message)
	}
	failure := &status.Failure{Reason: reason, Message: rejected + message}
	if last, ok := a.statuses.Get(pod.UID); !ok || last.Status.Message != failure.Message {
		a.log.Error("pod is refused", "pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID, "reason", reason, "message", message)
	}
	in := a.input(pod)
	in.Failure = failure
	a.keep(pod, in)
	return nil
}

func terminal(s *v1.PodStatus) bool { return s.Phase == v1.PodSucceeded || s.Phase == v1.PodFailed }

func allWaiting(pod *v1.Pod, reason, message string) map[string]runtime.Waiting {
	out := map[string]runtime.Waiting{}
	for i := range pod.Spec.Containers {
		out[pod.Spec.Containers[i].Name] = runtime.Waiting{Reason: reason, Message: message}
	}
	return out
}
