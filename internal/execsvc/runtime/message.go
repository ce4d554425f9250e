package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-client/pkg/logs"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/observed"
)

// The kubelet's limits of termination messages, in bytes (pkg/kubelet/container/runtime.go).
const (
	maxMessage    = 4096
	maxPodMessage = 12 << 10
	maxLogMessage = 2048
	maxLogLines   = 80
)

// messageFile is where one attempt of a container may leave a message, as the node sees it. Empty: nowhere.
func (r *Runtime) messageFile(uid types.UID, container string, attempt uint32) string {
	if r.cfg.PodsDir == "" {
		return ""
	}
	return filepath.Join(r.cfg.PodsDir, string(uid), "containers", container, fmt.Sprintf("%08x", attempt))
}

// withMessageFile makes the file for the container's termination message, and adds it to the mounts. A pod that mounts something
// of its own there gets that. Without the file the container runs all the same.
func (r *Runtime) withMessageFile(mounts []criconfig.Mount, pod *v1.Pod, c *v1.Container, attempt uint32) []criconfig.Mount {
	inside, file := c.TerminationMessagePath, r.messageFile(pod.UID, c.Name, attempt)
	if inside == "" || file == "" {
		return mounts
	}
	if !filepath.IsAbs(inside) {
		inside = "/" + inside
	}
	if slices.ContainsFunc(mounts, func(m criconfig.Mount) bool { return m.ContainerPath == inside }) {
		return mounts
	}
	if err := makeMessageFile(file); err != nil {
		r.log.Warn("a container can't leave a termination message", "pod", podName(pod), "uid", pod.UID, "container", c.Name, "error", err)
		return mounts
	}
	return slices.Concat(mounts, []criconfig.Mount{{HostPath: file, ContainerPath: inside}})
}

func makeMessageFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	// Whoever the container runs as may write to it, whatever this process's umask is.
	return errors.Join(file.Chmod(0o666), file.Close())
}

func (r *Runtime) removeMessageFile(uid types.UID, container string, attempt uint32) error {
	path := r.messageFile(uid, container, attempt)
	if path == "" {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the termination message of container %s: %w", container, err)
	}
	return nil
}

// addMessage adds to the runtime's message of a container that has ended what the container itself had to say.
func (r *Runtime) addMessage(ctx context.Context, uid types.UID, c *observed.Container, status *runtimeapi.ContainerStatus) {
	var text string
	annotations := status.GetAnnotations()
	if path := r.messageFile(uid, c.Name, c.Attempt); path != "" && annotations[criconfig.TerminationMessagePathAnnotation] != "" {
		var err error
		if text, err = lastBytes(path, maxMessage); err != nil && !errors.Is(err, fs.ErrNotExist) {
			text = "the termination message can't be read: " + err.Error()
		}
	}
	fromLog := annotations[criconfig.TerminationMessagePolicyAnnotation] == string(v1.TerminationMessageFallbackToLogsOnError)
	// One that couldn't be started hasn't logged anything.
	if text == "" && fromLog && c.ExitCode != 0 && !c.Started.IsZero() {
		text = lastLog(ctx, status.GetLogPath())
	}
	if c.Message != "" && text != "" {
		c.Message += ": "
	}
	c.Message += text
}

// lastBytes is the end of a file that a container has written.
func lastBytes(path string, limit int64) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.NewSectionReader(file, max(info.Size()-limit, 0), limit))
	return strings.ToValidUTF8(string(text), ""), err
}

// lastLog is the end of a container's log. Without a log there is nothing to say.
func lastLog(ctx context.Context, path string) string {
	lines := int64(maxLogLines)
	var end tail
	if err := logs.ReadLogs(ctx, path, "", &logs.LogOptions{TailLines: &lines}, nil, &end, &end); err != nil {
		return ""
	}
	return strings.ToValidUTF8(string(end), "")
}

// tail keeps the last maxLogMessage bytes that are written to it.
type tail []byte

func (t *tail) Write(p []byte) (int, error) {
	*t = append(*t, p...)
	*t = (*t)[max(len(*t)-maxLogMessage, 0):]
	return len(p), nil
}

// limitMessages cuts the messages of a pod's containers so that all that is shown of them has its bounds.
func limitMessages(containers []observed.Container) {
	names := map[string]bool{}
	for _, c := range containers {
		names[c.Name] = true
	}
	limit := min(maxMessage, maxPodMessage/max(len(names), 1))
	for i := range containers {
		if text := containers[i].Message; len(text) > limit {
			containers[i].Message = strings.ToValidUTF8(text[:limit], "")
		}
	}
}
