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

	"github.com/podstream/podstream/internal/execsvc/cri/containerlog"
	"github.com/podstream/podstream/internal/execsvc/machine/nodefs"
	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/openfile"
)

// The kubelet's limits of termination messages, in bytes (pkg/kubelet/container/runtime.go).
const (
	maxMessage    = 4096
	maxPodMessage = 12 << 10
	maxLogMessage = 2048
	maxLogLines   = 80
)

// messageFile returns the path on the node of the termination message of one attempt of a container. Empty: there is no
// such file.
func (r *Runtime) messageFile(uid types.UID, container string, attempt uint32) string {
	dir := r.cfg.PodDirs.Of(uid)
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "containers", container, fmt.Sprintf("%08x", attempt))
}

// withMessageFile creates the file for the container's termination message, and adds it to the mounts. If the pod
// mounts something of its own at that path, that mount stays, and the message is read from there. Without the file the
// container runs all the same.
func (r *Runtime) withMessageFile(mounts []criconfig.Mount, pod *v1.Pod, c *v1.Container, attempt uint32) []criconfig.Mount {
	inside, file := messagePath(c.TerminationMessagePath), r.messageFile(pod.UID, c.Name, attempt)
	if inside == "" || file == "" {
		return mounts
	}
	if slices.ContainsFunc(mounts, func(m criconfig.Mount) bool { return m.ContainerPath == inside }) {
		return mounts
	}
	if err := makeMessageFile(file); err != nil {
		r.log.Warn("a container can't leave a termination message", "pod", podmeta.LogName(pod), "uid", pod.UID, "container", c.Name, "error", err)
		return mounts
	}
	return slices.Concat(mounts, []criconfig.Mount{{HostPath: file, ContainerPath: inside}})
}

// messagePath returns the mount path of a terminationMessagePath. Empty: there is none.
func messagePath(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return "/" + path
}

func makeMessageFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	// A file that an earlier attempt to create this container has left may be large, or open in one of its processes.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	// Any user of the container may write to it, whatever this process's umask is.
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

// addMessage adds an ended container's own termination message to the runtime's message.
func (r *Runtime) addMessage(ctx context.Context, uid types.UID, c *observed.Container, status *runtimeapi.ContainerStatus) {
	var text string
	annotations := status.GetAnnotations()
	if inside := messagePath(annotations[criconfig.TerminationMessagePathAnnotation]); inside != "" {
		var err error
		if text, err = r.readMessage(ctx, uid, c, inside, status.GetMounts()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			text = "the termination message can't be read: " + err.Error()
		}
	}
	fromLog := annotations[criconfig.TerminationMessagePolicyAnnotation] == string(v1.TerminationMessageFallbackToLogsOnError)
	// A container that couldn't be started has no log.
	if text == "" && fromLog && c.ExitCode != 0 && !c.Started.IsZero() {
		text = lastLog(ctx, r.cfg.LogsDir, status.GetLogPath())
	}
	if c.Message != "" && text != "" {
		c.Message += ": "
	}
	c.Message += text
}

// readMessage returns the content of a path inside the container: of its message file, or of the pod's own mount there,
// as with the kubelet. Containers may change the path to the latter, so no link is followed but those to the pods'
// directories.
func (r *Runtime) readMessage(ctx context.Context, uid types.UID, c *observed.Container, inside string, mounts []*runtimeapi.Mount) (string, error) {
	dir, file := r.cfg.PodDirs.Root(uid), r.messageFile(uid, c.Name, c.Attempt)
	own := true
	for _, m := range mounts {
		if path := m.GetHostPath(); m.GetContainerPath() == inside && filepath.IsAbs(path) {
			file, own = path, path == file
			if name, err := filepath.Rel(dir, path); err != nil || !filepath.IsLocal(name) {
				dir = "/"
			}
			break
		}
	}
	if file == "" {
		return "", nil
	}
	if own {
		return lastBytes(dir, file, maxMessage)
	}
	// The pod's mount may be of a file system that doesn't answer, also beneath the pods' directories.
	return nodefs.Look(ctx, r.waits, nodefs.Pod{UID: string(uid)}, file, func() (string, error) { return lastBytes(dir, file, maxMessage) }, nil)
}

// lastBytes returns the end of a file that a container has written, at a path below dir.
func lastBytes(dir, path string, limit int64) (string, error) {
	name, err := filepath.Rel(dir, path)
	if err != nil {
		return "", err
	}
	file, err := openfile.OpenBeneath(dir, name)
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

// logBack is how many bytes at the end of a log are read for a message. A longer message is cut anyway.
const logBack = 256 << 10

// lastLog returns the end of a container's log, at a path below dir. Without a log it returns "".
func lastLog(ctx context.Context, dir, path string) string {
	name, err := filepath.Rel(dir, path)
	if err != nil {
		return ""
	}
	var end tail
	if err := containerlog.Read(ctx, containerlog.Log{Dir: dir, Name: name, Tail: new(int64(maxLogLines)), Back: logBack, Stdout: &end, Stderr: &end}); err != nil {
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

// limitMessages cuts the messages of a pod's containers so that their total is bounded.
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
