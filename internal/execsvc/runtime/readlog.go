package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-client/pkg/logs"
	"k8s.io/klog/v2"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
)

// ErrNoLog is what ReadLog returns if the log isn't there: it was never made, or has been removed.
var ErrNoLog = errors.New("there is no log of it")

// ErrTooManyFollows is what ReadLog returns if as many logs as may be are followed already.
var ErrTooManyFollows = errors.New("too many logs are followed: this node follows no more at a time")

// LogInput says which log is to be read, and how much of it.
type LogInput struct {
	UID             types.UID
	Namespace, Name string
	Container       string
	// Attempt is that of the container whose log it is. The log is read whether or not the container is still there.
	Attempt uint32
	// ContainerID is the container whose end ends a Follow. Empty: it has ended, and its log doesn't grow.
	ContainerID string
	Follow      bool
	// Since leaves out the lines that are older. Zero: none.
	Since time.Time
	// TailLines and LimitBytes are the most that is read. Nil: all.
	TailLines, LimitBytes *int64
	// Timestamps begins each line with its time.
	Timestamps bool
	// Stdout and Stderr get the lines, one write at a time.
	Stdout, Stderr io.Writer
	// Idle is called when all that there is has been read, and a Follow waits for more; its error ends the reading.
	Idle func() error
}

// askRunning is how often a Follow asks the runtime whether the container still runs, at most: a container that writes without a pause would
// else have it asked a thousand times a second.
const askRunning = 500 * time.Millisecond

// ReadLog reads a container's log to its end; with Follow, to the container's end. It returns ErrNoLog or ErrTooManyFollows before anything
// is written.
func (r *Runtime) ReadLog(ctx context.Context, in LogInput) error {
	path := filepath.Join(criconfig.LogDir(r.cfg.LogsDir, in.Namespace, in.Name, in.UID), criconfig.LogPath(in.Container, in.Attempt))
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return ErrNoLog
	}
	if in.Follow = in.Follow && in.ContainerID != ""; in.Follow {
		defer r.follows.Add(-1)
		if r.follows.Add(1) > int64(r.cfg.MaxFollows) {
			return ErrTooManyFollows
		}
	}
	// The reader would log the lines that it doesn't understand.
	quiet := klog.NewContext(ctx, logr.Discard())
	err := logs.ReadLogs(quiet, path, in.ContainerID, &logs.LogOptions{
		TailLines: in.TailLines, LimitBytes: in.LimitBytes, Since: in.Since, Follow: in.Follow, Timestamp: in.Timestamps,
	}, &followed{RuntimeService: r.cfg.Runtime, idle: in.Idle}, in.Stdout, in.Stderr)
	if err != nil {
		return fmt.Errorf("read the log of container %s: %w", in.Container, err)
	}
	return nil
}

// followed is the runtime as a log's reader needs it, which asks whether the container runs each time that it has read all there is.
type followed struct {
	internalapi.RuntimeService
	idle func() error
	// last is the runtime's last answer, and asked when it was asked for.
	last  *runtimeapi.ContainerStatusResponse
	asked time.Time
}

// ContainerStatus is that of the runtime, not long ago. A container that is gone has ended.
func (f *followed) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	if f.idle != nil {
		if err := f.idle(); err != nil {
			return nil, err
		}
	}
	gone := &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{State: runtimeapi.ContainerState_CONTAINER_EXITED}}
	if f.last != nil && time.Since(f.asked) < askRunning {
		return f.last, nil
	}
	f.asked = time.Now()
	resp, err := f.RuntimeService.ContainerStatus(ctx, id, verbose)
	if status.Code(err) == codes.NotFound {
		return gone, nil
	}
	f.last = resp
	return resp, err
}

// inotifyInstances is how many the kernel allows a user.
func inotifyInstances() int {
	const usual = 128
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_user_instances")
	if err != nil {
		return usual
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return usual
	}
	return n
}
