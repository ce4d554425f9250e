package execsvc

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/events"
	"github.com/podstream/podstream/internal/execsvc/runtime"
	"github.com/podstream/podstream/internal/execsvc/status"
	"github.com/podstream/podstream/internal/execsvc/store"
	"github.com/podstream/podstream/internal/execsvc/worker"
)

// SyncTerminatingPod is part of worker.Syncer.
func (a *Agent) SyncTerminatingPod(ctx context.Context, pod *v1.Pod, t worker.Termination) error {
	a.remember(ctx, pod, t)
	a.probes.Ending(pod.UID)
	a.cfg.Images.Forget(pod.UID)
	has, err := a.pleg.Current(ctx, pod.UID)
	if err != nil {
		return err
	}
	// Why the pod ends shows when nothing of it runs: that it has failed says that what it used is free.
	a.observe(pod, nil)
	grace := runtime.Grace{Seconds: t.Grace, Since: t.Since(), Told: func(id string, begun time.Time) { a.cfg.Store.SetTold(pod.UID, id, begun) }}
	if err := a.cfg.Runtime.KillPod(ctx, pod, has, grace); err != nil {
		if ctx.Err() == nil {
			a.cfg.Events.Record(pod, "", events.Warning, events.FailedToKillPod, err.Error())
		}
		// What was stopped all the same has to be seen.
		_, readErr := a.pleg.Refresh(ctx, pod.UID)
		return errors.Join(err, readErr)
	}
	if has, err = a.pleg.Refresh(ctx, pod.UID); err != nil {
		return err
	}
	if has.Active() {
		return errors.New("something of the pod still runs after it was stopped")
	}
	a.probes.Remove(pod.UID)
	a.keep(pod, func(in *status.Input) { in.Failure, in.Terminal = t.Failure, true })
	return nil
}

// remember has the store keep how the pod ends, so that this agent's next life knows it too. If the store can't, the pod ends all the same.
func (a *Agent) remember(ctx context.Context, pod *v1.Pod, t worker.Termination) {
	if pod.Name == "" {
		return
	}
	w, _ := a.workers.Get(pod.UID)
	err := a.cfg.Store.SetEnd(ctx, pod.UID, endOf(pod, t, w.Removed))
	if err != nil && ctx.Err() == nil {
		a.log.Warn("the end of a pod isn't on disk: if podexecd is restarted now, its grace period begins anew",
			"pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID, "error", err)
	}
}

func endOf(pod *v1.Pod, t worker.Termination, removed bool) store.End {
	end := store.End{
		UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Source: pod.Annotations[sourceAnnotation],
		Grace: t.Grace, Deadline: t.Deadline, Removed: removed, Failure: t.Failure,
	}
	if len(pod.Spec.Containers) > 0 { // and not a skeleton
		end.Object = pod
	}
	return end
}

// SyncTerminatedPod is part of worker.Syncer.
func (a *Agent) SyncTerminatedPod(ctx context.Context, pod *v1.Pod, _ worker.Termination) error {
	// How the pod ended must be known for good before what tells of it goes.
	if err := a.cfg.Store.Flush(ctx); err != nil && ctx.Err() == nil {
		a.log.Warn("how a pod ended isn't on disk", "pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID, "error", err)
	}
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
	if err := a.cfg.World.TearDown(ctx, pod.UID); err != nil {
		return err
	}
	a.madeRoom(pod.UID)
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
	a.forget(pod.UID)
	a.log.Info("pod is gone", "pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID)
	return nil
}
