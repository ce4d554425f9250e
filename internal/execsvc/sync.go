package execsvc

import (
	"context"
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/admit"
	"github.com/podstream/podstream/internal/execsvc/runtime"
	"github.com/podstream/podstream/internal/execsvc/status"
	"github.com/podstream/podstream/internal/execsvc/worker"
)

// SyncPod is part of worker.Syncer. The order of its steps is the kubelet's.
func (a *Agent) SyncPod(ctx context.Context, pod *v1.Pod) (worker.Result, error) {
	verdict := admit.Check(pod)
	if len(verdict.Refused) > 0 {
		a.refuse(pod, verdict)
		return worker.Result{}, nil
	}
	if _, seen := a.statuses.Get(pod.UID); !seen && len(verdict.Ignored) > 0 {
		a.log.Warn("pod sets fields that this version doesn't act upon; it runs without them",
			"pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID, "fields", verdict.Ignored)
	}
	has, err := a.pleg.Refresh(ctx, pod.UID)
	if err != nil {
		return worker.Result{}, err
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
		Mounts: func(c *v1.Container) ([]runtime.Mount, error) { return a.cfg.Volumes.Mounts(pod, c) },
	})
	// What was done shows at once, not at the next relist.
	has, err = a.pleg.Refresh(ctx, pod.UID)
	if err != nil {
		return worker.Result{RetryAfter: res.RetryAfter}, err
	}
	a.observe(pod, has, res.Waiting)
	if res.Err != nil || len(res.Waiting) > 0 {
		return worker.Result{RetryAfter: res.RetryAfter}, res.Err
	}
	next := runtime.ComputeActions(pod, has)
	return worker.Result{Again: next.KillPod && has.Active() || len(next.Start) > 0 || len(next.Kill) > 0}, nil
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
		if err := a.cfg.Runtime.RemoveLogs(pod); err != nil {
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
func (a *Agent) observe(pod *v1.Pod, has *runtime.Pod, waiting map[string]runtime.Waiting) *v1.PodStatus {
	in := a.input(pod)
	in.Runtime, in.Waiting = has, waiting
	return a.keep(pod, in)
}

func (a *Agent) input(pod *v1.Pod) status.Input {
	return status.Input{Pod: pod, Now: a.cfg.Clock.Now(), HostIPs: a.cfg.HostIPs, RuntimeName: a.cfg.RuntimeName}
}

func (a *Agent) keep(pod *v1.Pod, in status.Input) *v1.PodStatus {
	if last, ok := a.statuses.Get(pod.UID); ok {
		in.Previous = last.Status
	}
	now := status.Generate(in)
	a.statuses.Set(pod, &now)
	return &now
}

// refuse marks a pod failed that this version can't run as it was meant.
func (a *Agent) refuse(pod *v1.Pod, verdict admit.Verdict) {
	var messages []string
	for _, r := range verdict.Refused {
		messages = append(messages, r.Message)
	}
	failure := &status.Failure{Reason: verdict.Refused[0].Reason, Message: "Pod was rejected: " + strings.Join(messages, "; ")}
	if last, ok := a.statuses.Get(pod.UID); !ok || last.Status.Message != failure.Message {
		a.log.Error("pod is refused", "pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID, "reason", failure.Reason, "message", failure.Message)
	}
	in := a.input(pod)
	in.Failure = failure
	a.keep(pod, in)
}

func terminal(s *v1.PodStatus) bool { return s.Phase == v1.PodSucceeded || s.Phase == v1.PodFailed }

func allWaiting(pod *v1.Pod, reason, message string) map[string]runtime.Waiting {
	out := map[string]runtime.Waiting{}
	for i := range pod.Spec.Containers {
		out[pod.Spec.Containers[i].Name] = runtime.Waiting{Reason: reason, Message: message}
	}
	return out
}
