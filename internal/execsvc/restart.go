package execsvc

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/decide/actions"
	"github.com/podstream/podstream/internal/execsvc/loop/restarts"
	"github.com/podstream/podstream/internal/execsvc/loop/worker"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// restartPatience is how long RestartPod waits for the first reading of the runtime, and for the disk.
const restartPatience = 10 * time.Second

// RestartPod accepts an operator's request to restart a container of the pod, or with an empty name all that run. It
// returns once the request is on disk; the pod's worker carries it out. It needs neither podconfigd nor the API server.
func (a *Agent) RestartPod(ctx context.Context, uid types.UID, container string) (restarts.Accepted, error) {
	ctx, cancel := context.WithTimeout(ctx, restartPatience)
	defer cancel()
	select {
	case <-a.restored:
	case <-ctx.Done():
		return restarts.Accepted{}, fmt.Errorf("%w: podexecd hasn't read the pods of the container runtime yet", restarts.ErrRefused)
	}
	pod := a.pods.Get(uid)
	if err := a.refuseRestart(uid, pod); err != nil {
		return restarts.Accepted{}, err
	}
	// The pod isn't read here: a container must not be shown before its worker has read it. See setStatus.
	has := a.pleg.Get(uid)
	if has == nil {
		has = &observed.Pod{UID: uid}
	}
	asked, joined, err := a.restarts.Add(ctx, uid, func(before actions.Requested) (actions.Requested, error) {
		return actions.Request(pod, has, before, container)
	})
	if err != nil {
		return restarts.Accepted{}, err
	}
	if err := a.refuseRestart(uid, pod); err != nil {
		// The pod ends since: its end has dropped the request, or does it here.
		a.restarts.Drop(uid)
		return restarts.Accepted{}, err
	}
	a.workers.Retry(uid)
	accepted := a.accepted(pod, asked)
	accepted.Joined = joined
	a.log.Info("an operator has requested a restart", "pod", podmeta.LogName(pod), "uid", uid, "containers", namesOf(accepted), "joined", joined)
	return accepted, nil
}

// refuseRestart returns why no container of the pod can be restarted, or nil. pod is nil if it isn't desired.
func (a *Agent) refuseRestart(uid types.UID, pod *v1.Pod) error {
	w, working := a.workers.Get(uid)
	switch {
	case pod == nil && working:
		return fmt.Errorf("%w: the pod isn't desired any more, and is being ended", restarts.ErrRefused)
	case pod == nil:
		return fmt.Errorf("%w: no source has confirmed the pod since podexecd has started", restarts.ErrRefused)
	case !working, w.State == worker.Waiting:
		return fmt.Errorf("%w: the pod hasn't started yet, because another pod of its name exists", restarts.ErrRefused)
	}
	last := a.lastStatus(pod)
	switch {
	case last != nil && podmeta.IsTerminal(last.Phase):
		return fmt.Errorf("%w: the pod has finished: it is %s", restarts.ErrRefused, last.Phase)
	case w.State > worker.Syncing:
		return fmt.Errorf("%w: the pod is being ended", restarts.ErrRefused)
	}
	return nil
}

// accepted returns the description of a request for its caller.
func (a *Agent) accepted(pod *v1.Pod, asked actions.Requested) restarts.Accepted {
	out := restarts.Accepted{GraceSeconds: podmeta.GracePeriod(pod)}
	counts := map[string]int32{}
	if last := a.lastStatus(pod); last != nil {
		for _, s := range slices.Concat(last.InitContainerStatuses, last.ContainerStatuses) {
			counts[s.Name] = s.RestartCount
		}
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if id := asked[c.Name]; id != "" {
			out.Containers = append(out.Containers, restarts.Container{Name: c.Name, ID: a.cfg.RuntimeName + "://" + id, RestartCount: counts[c.Name]})
		}
	}
	return out
}

func namesOf(accepted restarts.Accepted) []string {
	var names []string
	for _, c := range accepted.Containers {
		names = append(names, c.Name)
	}
	return names
}

// restoreRestarts continues the requests of before the restart.
func (a *Agent) restoreRestarts() {
	for _, s := range a.cfg.Restored.Statuses {
		if s.Restart == nil {
			continue
		}
		for id, begun := range s.Restart.Stopping {
			a.cfg.Runtime.RestoreSignaled(id, begun)
		}
	}
}

// settleRestart deletes the pod's request if a reading of the runtime shows that it is complete.
func (a *Agent) settleRestart(pod *v1.Pod, has *observed.Pod) {
	done := a.restarts.Settle(pod.UID, func(r actions.Requested) actions.Requested { return r.Pending(pod, has) })
	if done {
		a.log.Info("the restart that an operator has requested is complete", "pod", podmeta.LogName(pod), "uid", pod.UID)
	}
}
