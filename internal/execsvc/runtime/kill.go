package runtime

import (
	"context"
	"errors"
	"fmt"
	"github.com/podstream/podstream/internal/execsvc/actions"
	"github.com/podstream/podstream/internal/execsvc/observed"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
)

// minGrace is the least time, in seconds, that a container gets to end by itself.
const minGrace = 1

// KillPod stops all that the pod has: its containers at once, each with the grace period in seconds, then its sandboxes. It is
// no error if something has stopped before.
func (r *Runtime) KillPod(ctx context.Context, has *observed.Pod, grace int64) error {
	var group errgroup.Group
	for _, c := range has.Containers {
		if c.State == observed.Running || c.State == observed.Unknown {
			group.Go(func() error { return r.stopContainer(ctx, c, grace) })
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, s := range has.Sandboxes {
		// A sandbox that isn't ready may still hold its network.
		if err := ignoreGone(r.cfg.Runtime.StopPodSandbox(ctx, s.ID)); err != nil {
			return fmt.Errorf("stop sandbox %s: %w", s.ID, err)
		}
	}
	return nil
}

func (r *Runtime) stopContainer(ctx context.Context, c observed.Container, grace int64) error {
	if err := ignoreGone(r.cfg.Runtime.StopContainer(ctx, c.ID, max(grace, minGrace))); err != nil {
		return fmt.Errorf("stop container %s (%s): %w", c.Name, c.ID, err)
	}
	return nil
}

// ignoreGone is err, but nil if it says that what was to be stopped or removed isn't there: not every runtime takes that for
// success, as the CRI wants it to.
func ignoreGone(err error) error {
	if status.Code(err) == codes.NotFound {
		return nil
	}
	return err
}

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
		if err := ignoreGone(r.cfg.Runtime.RemovePodSandbox(ctx, s.ID)); err != nil {
			return fmt.Errorf("remove sandbox %s: %w", s.ID, err)
		}
	}
	return nil
}

// RemoveLogs removes the pod's logs.
func (r *Runtime) RemoveLogs(pod *v1.Pod) error {
	if err := r.removeLogDir(criconfig.LogDir(r.cfg.LogsDir, pod.Namespace, pod.Name, pod.UID)); err != nil {
		return fmt.Errorf("remove the pod's logs: %w", err)
	}
	return nil
}

// RemoveLogsOf removes the logs of a pod of which only the UID is known.
func (r *Runtime) RemoveLogsOf(uid types.UID) error {
	if err := criconfig.CheckUID(uid); err != nil {
		return err
	}
	entries, err := os.ReadDir(r.cfg.LogsDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for the pod's logs: %w", err)
	}
	for _, e := range entries {
		// Neither namespaces nor names have underscores; a UID may.
		if parts := strings.SplitN(e.Name(), "_", 3); len(parts) != 3 || parts[2] != string(uid) {
			continue
		}
		if err := r.removeLogDir(filepath.Join(r.cfg.LogsDir, e.Name())); err != nil {
			return fmt.Errorf("remove the pod's logs: %w", err)
		}
	}
	return nil
}

// removeLogDir removes a pod's log directory, and the links into it first. Those of containers that were removed are gone
// already; what is left are those of containers that the runtime lost.
func (r *Runtime) removeLogDir(dir string) error {
	links, err := os.ReadDir(r.linksDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, l := range links {
		path := filepath.Join(r.linksDir(), l.Name())
		target, err := os.Readlink(path)
		if err != nil || !strings.HasPrefix(target, dir+string(filepath.Separator)) {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.RemoveAll(dir)
}

// prune removes dead containers but the last of each name, which is kept for its logs and as lastState.
func (r *Runtime) prune(ctx context.Context, in SyncInput) error {
	seen := map[string]bool{}
	for _, c := range in.Has.Containers {
		switch {
		case c.State == observed.Running, c.State == observed.Unknown:
			continue
		case c.State == observed.Created && in.Has.Latest(c.Name).ID == c.ID:
			continue
		case c.State == observed.Exited && !seen[c.Name]:
			seen[c.Name] = true
			continue
		}
		if err := r.removeContainer(ctx, in.Pod.Namespace, in.Pod.Name, in.Pod.UID, c); err != nil {
			return err
		}
	}
	latest := ""
	if len(in.Has.Sandboxes) > 0 {
		latest = in.Has.Sandboxes[0].ID
	}
	for _, s := range in.Has.Sandboxes {
		if s.ID == latest || s.Ready || in.Has.Holds(s.ID) {
			continue
		}
		if err := ignoreGone(r.cfg.Runtime.RemovePodSandbox(ctx, s.ID)); err != nil {
			return fmt.Errorf("remove sandbox %s: %w", s.ID, err)
		}
	}
	return nil
}

// removeContainer removes a container that doesn't run, with its log and the link to it.
func (r *Runtime) removeContainer(ctx context.Context, namespace, name string, uid types.UID, c observed.Container) error {
	if err := ignoreGone(r.cfg.Runtime.RemoveContainer(ctx, c.ID)); err != nil {
		return fmt.Errorf("remove container %s (%s): %w", c.Name, c.ID, err)
	}
	for _, path := range []string{
		filepath.Join(criconfig.LogDir(r.cfg.LogsDir, namespace, name, uid), criconfig.LogPath(c.Name, c.Attempt)),
		r.logLink(namespace, name, c.Name, c.ID),
	} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the log of container %s: %w", c.Name, err)
		}
	}
	return nil
}

// linkLog makes the link in /var/log/containers that log collectors look for.
func (r *Runtime) linkLog(pod *v1.Pod, s actions.Start, id string) error {
	link := r.logLink(pod.Namespace, pod.Name, s.Container.Name, id)
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return fmt.Errorf("make the directory of log links: %w", err)
	}
	target := filepath.Join(criconfig.LogDir(r.cfg.LogsDir, pod.Namespace, pod.Name, pod.UID), criconfig.LogPath(s.Container.Name, s.Attempt))
	if err := os.Symlink(target, link); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("link the log of attempt %s: %w", strconv.Itoa(int(s.Attempt)), err)
	}
	return nil
}

func (r *Runtime) logLink(namespace, name, container, id string) string {
	return filepath.Join(r.linksDir(), criconfig.LogLinkName(namespace, name, container, id))
}

// linksDir is /var/log/containers, if the logs are in /var/log/pods.
func (r *Runtime) linksDir() string { return filepath.Join(filepath.Dir(r.cfg.LogsDir), "containers") }
