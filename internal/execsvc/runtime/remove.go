package runtime

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/observed"
	"github.com/podstream/podstream/internal/failpoint"
)

// Purge removes all that is left of a pod that has been killed: containers, logs, and the sandboxes last, so that a pod of
// which something is left can be found by them.
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

// RemoveContainer removes a container that has ended, with its log and the link to it; that it is gone already is no error.
func (r *Runtime) RemoveContainer(ctx context.Context, pod *observed.Pod, c observed.Container) error {
	return r.removeContainer(ctx, pod.Namespace, pod.Name, pod.UID, c)
}

func (r *Runtime) oldEnough(c observed.Container) bool {
	ended := c.Finished
	if ended.IsZero() {
		ended = c.Created
	}
	return r.cfg.Clock.Since(ended) >= r.cfg.MinAge
}

// prune removes the pod's dead containers but the last few of each name, and the dead sandboxes that no container is left in.
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

// removeContainer removes a container that doesn't run, with its log and the file that it had for its last words. The container goes last: what
// is cut short is found by it, and done again.
func (r *Runtime) removeContainer(ctx context.Context, namespace, name string, uid types.UID, c observed.Container) error {
	path := filepath.Join(criconfig.LogDir(r.cfg.LogsDir, namespace, name, uid), criconfig.LogPath(c.Name, c.Attempt))
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the log of container %s: %w", c.Name, err)
	}
	return r.removeButLog(ctx, namespace, name, uid, c)
}

// removeButLog is removeContainer, but leaves the log. The link to it goes.
func (r *Runtime) removeButLog(ctx context.Context, namespace, name string, uid types.UID, c observed.Container) error {
	if err := os.Remove(r.logLink(namespace, name, c.Name, c.ID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the link to the log of container %s: %w", c.Name, err)
	}
	if err := r.removeMessageFile(uid, c.Name, c.Attempt); err != nil {
		return err
	}
	if err := ignoreGone(r.cfg.Runtime.RemoveContainer(ctx, c.ID)); err != nil {
		return fmt.Errorf("remove container %s (%s): %w", c.Name, c.ID, err)
	}
	return nil
}
