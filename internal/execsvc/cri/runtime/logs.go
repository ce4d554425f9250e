package runtime

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/cri/logdir"
	"github.com/podstream/podstream/internal/execsvc/decide/actions"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/failpoint"
)

// RemoveLogs removes the pod's logs.
func (r *Runtime) RemoveLogs(pod *v1.Pod) error {
	if podmeta.CheckPath(pod) != nil {
		return nil //nolint:nilerr // Such a pod has no logs.
	}
	if err := r.removeLogDir(podmeta.LogDir(r.cfg.LogsDir, pod.Namespace, pod.Name, pod.UID)); err != nil {
		return fmt.Errorf("remove the pod's logs: %w", err)
	}
	return nil
}

// RemoveLogsOf removes the logs of a pod by its UID.
func (r *Runtime) RemoveLogsOf(uid types.UID) error {
	if err := podmeta.CheckUID(uid); err != nil {
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

// removeLogDir removes the links into a pod's log directory, and then the directory. The links of removed containers
// are gone already; the others are of containers that the runtime lost.
func (r *Runtime) removeLogDir(dir string) error {
	failpoint.Reached(failpoint.BeforeLogRemoval)
	defer failpoint.Reached(failpoint.AfterLogRemoval)
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
	failpoint.Reached(failpoint.LogLinksGone)
	return os.RemoveAll(dir)
}

// attemptAfterLogs returns the attempt of a container that has no earlier one in the runtime. Earlier attempts that
// were removed, or that the runtime lost, may have left logs. The last log is kept; the older ones are removed here,
// because nothing else removes them.
func (r *Runtime) attemptAfterLogs(pod *v1.Pod, container string) (uint32, error) {
	next, err := logdir.NextAttempt(r.cfg.LogsDir, filepath.Join(podmeta.LogDir("", pod.Namespace, pod.Name, pod.UID), container))
	if err != nil {
		return 0, fmt.Errorf("look for the container's earlier logs: %w", err)
	}
	return next, nil
}

// linkLog creates the link in /var/log/containers that log collectors read.
func (r *Runtime) linkLog(pod *v1.Pod, s actions.Start, id string) error {
	failpoint.Reached(failpoint.BeforeLogLink)
	defer failpoint.Reached(failpoint.AfterLogLink)
	link := r.logLink(pod.Namespace, pod.Name, s.Container.Name, id)
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return fmt.Errorf("make the directory of log links: %w", err)
	}
	target := filepath.Join(podmeta.LogDir(r.cfg.LogsDir, pod.Namespace, pod.Name, pod.UID), podmeta.LogPath(s.Container.Name, s.Attempt))
	if err := os.Symlink(target, link); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("link the log of attempt %s: %w", strconv.Itoa(int(s.Attempt)), err)
	}
	return nil
}

func (r *Runtime) logLink(namespace, name, container, id string) string {
	return filepath.Join(r.linksDir(), podmeta.LogLinkName(namespace, name, container, id))
}

// linksDir returns /var/log/containers if the logs are in /var/log/pods.
func (r *Runtime) linksDir() string { return filepath.Join(filepath.Dir(r.cfg.LogsDir), "containers") }
