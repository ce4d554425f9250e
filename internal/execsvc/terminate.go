package execsvc

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	"github.com/podstream/podstream/internal/execsvc/decide/status"
	"github.com/podstream/podstream/internal/execsvc/loop/store"
	"github.com/podstream/podstream/internal/execsvc/loop/worker"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// SyncTerminatingPod is part of worker.Syncer.
func (a *Agent) SyncTerminatingPod(ctx context.Context, pod *v1.Pod, t worker.Termination) (err error) {
	ctx, end := a.cfg.Traces.Start(ctx, "syncTerminatingPod", pod)
	defer func() { end(false, err) }()
	a.storeEnd(ctx, pod, t)
	a.probes.Ending(pod.UID)
	a.restarts.Drop(pod.UID)
	a.cfg.Images.Drop(pod.UID)
	has, err := a.current(ctx, pod)
	if err != nil {
		return err
	}
	// The failure is set only after the end: a phase Failed means that the pod's resources are free.
	a.observe(pod, nil)
	grace := runtime.Grace{Seconds: t.Grace, Since: t.Since(), Signaled: func(id string, begun time.Time) { a.cfg.Store.SetStopping(pod.UID, id, begun) }}
	if err := a.cfg.Runtime.KillPod(ctx, pod, has, grace); err != nil {
		if ctx.Err() == nil {
			a.cfg.Events.Record(pod, "", events.Warning, events.FailedToKillPod, "error killing pod: "+err.Error())
		}
		// Some of the containers may have been stopped.
		_, readErr := a.pleg.Refresh(ctx, pod.UID)
		return errors.Join(err, readErr)
	}
	if has, err = a.pleg.Refresh(ctx, pod.UID); err != nil {
		return err
	}
	if has.Active() {
		return errors.New("a container or sandbox still runs after the pod was stopped")
	}
	a.probes.Remove(pod.UID)
	a.keep(pod, func(in *status.Input) { in.Failure, in.Terminal = t.Failure, true })
	return nil
}

// storeEnd stores the termination for the case of a restart. If the store can't be written, the pod ends all the same.
func (a *Agent) storeEnd(ctx context.Context, pod *v1.Pod, t worker.Termination) {
	if pod.Name == "" {
		return
	}
	w, _ := a.workers.Get(pod.UID)
	err := a.cfg.Store.SetEnd(ctx, pod.UID, endOf(pod, t, w.Removed))
	if err != nil && ctx.Err() == nil {
		a.log.Warn("the termination of a pod couldn't be stored: if podexecd is restarted now, the grace period begins again",
			"pod", podmeta.LogName(pod), "uid", pod.UID, "error", err)
	}
}

func endOf(pod *v1.Pod, t worker.Termination, removed bool) store.End {
	end := store.End{
		UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Source: pod.Annotations[podmeta.SourceAnnotation],
		Grace: t.Grace, Deadline: t.Deadline, Removed: removed, Failure: t.Failure,
	}
	if len(pod.Spec.Containers) > 0 { // and not a skeleton
		end.Object = pod
	}
	return end
}

// SyncTerminatedPod is part of worker.Syncer.
func (a *Agent) SyncTerminatedPod(ctx context.Context, pod *v1.Pod, _ worker.Termination) (err error) {
	ctx, end := a.cfg.Traces.Start(ctx, "syncTerminatedPod", pod)
	defer func() { end(err == nil, err) }()
	// The last status must be on disk before the containers and logs are removed.
	if err := a.cfg.Store.Flush(ctx); err != nil && ctx.Err() == nil {
		a.log.Warn("the last status of a pod couldn't be stored", "pod", podmeta.LogName(pod), "uid", pod.UID, "error", err)
	}
	// The directory is removed last: after a restart, the rest of the pod is found by it.
	if a.pods.Get(pod.UID) == nil {
		remove := func() error { return a.cfg.Runtime.RemoveLogs(pod) }
		if pod.Name == "" {
			remove = func() error { return a.cfg.Runtime.RemoveLogsOf(pod.UID) }
		}
		if err := remove(); err != nil {
			return err
		}
	}
	if err := a.cfg.PodSetup.TearDown(ctx, pod.UID); err != nil {
		return err
	}
	a.release(pod.UID)
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
	a.drop(pod.UID)
	a.log.Info("pod is gone", "pod", podmeta.LogName(pod), "uid", pod.UID)
	return nil
}

// drop deletes all records of a pod that is gone.
func (a *Agent) drop(uid types.UID) {
	a.probes.Remove(uid)
	a.restarts.Drop(uid)
	a.cfg.Images.Drop(uid)
	a.dropStatus(uid)
	a.release(uid)
	a.reportPodErrors(a.podErrors.clear(uid))
	a.started.Drop(string(uid))
	a.ended.Drop(string(uid))
	a.show(uid)
}
