package runtime

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/cri/logdir"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/failpoint"
)

// Purge removes the containers, logs and sandboxes of a pod that was killed. The sandboxes go last, so that an
// interrupted Purge is found by them.
func (r *Runtime) Purge(ctx context.Context, pod *v1.Pod, has *observed.Pod) error {
	for _, c := range has.Containers {
		if err := r.removeContainer(ctx, pod.Namespace, pod.Name, pod.UID, c); err != nil {
			return err
		}
	}
	if err := r.RemoveLogs(pod); err != nil {
		return err
	}
	for _, s := range has.Sandboxes {
		if err := r.removeSandbox(ctx, s.ID); err != nil {
			return err
		}
	}
	return nil
}

// RemoveContainer removes a container that has ended, with its log and the link to it. A container that is gone already
// is no error.
func (r *Runtime) RemoveContainer(ctx context.Context, pod *observed.Pod, c observed.Container) error {
	return r.removeContainer(ctx, pod.Namespace, pod.Name, pod.UID, c)
}

func (r *Runtime) oldEnough(c observed.Container) bool {
	ended := c.Finished
	if ended.IsZero() {
		ended = c.Created
	}
	now := r.cfg.Clock.Now()
	return now.Sub(r.ages.Of(c.ID, now, ended)) >= r.cfg.MinAge
}

// prune removes the pod's dead containers but the last few of each name, and the dead sandboxes without a container.
func (s *round) prune(ctx context.Context, pod *v1.Pod, has *observed.Pod) error {
	keep := ptr.Deref(s.cfg.MaxPerContainer, 1)
	dead := map[string]int{}
	for _, c := range has.Containers {
		newest := has.Latest(c.Name).ID == c.ID
		switch {
		case c.State == observed.Running, c.State == observed.Unknown:
			continue
		case c.State == observed.Created && newest:
			continue
		case c.State == observed.Exited:
			dead[c.Name]++
			if newest || keep < 0 || dead[c.Name] <= keep || !s.oldEnough(c) {
				continue
			}
		}
		s.res.Acted = true
		if err := s.removeContainer(ctx, pod.Namespace, pod.Name, pod.UID, c); err != nil {
			return err
		}
	}
	for i, box := range has.Sandboxes {
		if i == 0 || box.Ready || has.Holds(box.ID) {
			continue
		}
		s.res.Acted = true
		s.removeCgroup(ctx, pod.Namespace, pod.Name, pod.UID, box.ID)
		if err := s.removeSandbox(ctx, box.ID); err != nil {
			return err
		}
	}
	return nil
}

func (r *Runtime) removeSandbox(ctx context.Context, id string) error {
	if failpoint.Active(failpoint.LeakSandbox) {
		return nil
	}
	if err := ignoreGone(r.cfg.Runtime.RemovePodSandbox(ctx, id)); err != nil {
		return fmt.Errorf("remove sandbox %s: %w", id, err)
	}
	return nil
}

// removeContainer removes a container that doesn't run, with its log and its termination message file. The container
// goes last, so that an interrupted removal is found by it and repeated.
func (r *Runtime) removeContainer(ctx context.Context, namespace, name string, uid types.UID, c observed.Container) error {
	if err := logdir.RemoveAll(r.cfg.LogsDir, logName(namespace, name, uid, c.Name, c.Attempt)); err != nil {
		return fmt.Errorf("remove the log of container %s: %w", c.Name, err)
	}
	return r.removeButLog(ctx, namespace, name, uid, c)
}

// removeButLog is like removeContainer, but keeps the log. The link to it is removed.
func (r *Runtime) removeButLog(ctx context.Context, namespace, name string, uid types.UID, c observed.Container) error {
	if err := os.Remove(r.logLink(namespace, name, c.Name, c.ID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the link to the log of container %s: %w", c.Name, err)
	}
	if err := r.removeMessageFile(uid, c.Name, c.Attempt); err != nil {
		return err
	}
	// A start that was cut short shows as a created container, or as one that ended.
	neverStarted := c.Started.IsZero() && (c.State == observed.Created || c.State == observed.Exited)
	if neverStarted {
		r.removeCgroup(ctx, namespace, name, uid, c.ID)
	}
	err := r.cfg.Runtime.RemoveContainer(ctx, c.ID)
	if neverStarted && status.Code(err) == codes.FailedPrecondition && r.cfg.DeleteTask != nil {
		err = r.removeWithTask(ctx, namespace, name, uid, c, err)
	}
	if err := ignoreGone(err); err != nil {
		return fmt.Errorf("remove container %s (%s): %w", c.Name, c.ID, err)
	}
	return nil
}

// removeWithTask removes a container that never started, and that the runtime refused to remove: containerd keeps the
// task of a start that was cut short, and then no request of CRI removes the container. See package containerd.
func (r *Runtime) removeWithTask(
	ctx context.Context, namespace, name string, uid types.UID, c observed.Container, refusal error,
) error {
	if err := r.cfg.DeleteTask(ctx, c.ID); err != nil {
		return fmt.Errorf("%w; delete its task: %w", refusal, err)
	}
	r.log.Info("deleted the task that an interrupted start of a container left",
		"pod", namespace+"/"+name, "uid", uid, "container", c.Name, "id", c.ID)
	return r.cfg.Runtime.RemoveContainer(ctx, c.ID)
}

// cgroupPatience is how long the processes in a cgroup that is left may take to exit after SIGKILL.
const cgroupPatience = 2 * time.Second

// removeCgroup removes the cgroup that an interrupted start left, while the container or sandbox can still be found. If
// that fails, the cgroup stays until the pod's is removed.
func (r *Runtime) removeCgroup(ctx context.Context, namespace, name string, uid types.UID, id string) {
	if r.cfg.RemoveCgroup == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, cgroupPatience)
	defer cancel()
	if err := r.cfg.RemoveCgroup(ctx, uid, id); err != nil {
		r.log.Warn("the cgroup of an ended container or sandbox is left, until the pod ends",
			"pod", namespace+"/"+name, "uid", uid, "id", id, "error", err)
	}
}
