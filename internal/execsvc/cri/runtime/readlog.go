package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/cri/containerlog"
	"github.com/podstream/podstream/internal/execsvc/machine/share"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// ErrNoLog is what ReadLog returns if the log doesn't exist: it was never created, or was removed.
var ErrNoLog = errors.New("there is no log of it")

// ErrTooManyFollows is wrapped by the error of ReadLog if a limit of followed logs is reached: in all, of the pod, of
// its namespace or of the caller.
var ErrTooManyFollows = errors.New("too many logs are followed")

// LogInput says which log to read, and how much of it.
type LogInput struct {
	UID             types.UID
	Namespace, Name string
	Container       string
	// Attempt is the container's attempt. The log is read whether or not the container still exists.
	Attempt uint32
	// ContainerID is the container whose end ends a Follow. Empty: the container has ended, and its log doesn't grow.
	ContainerID string
	Follow      bool
	// Caller is the caller whose limit this Follow counts for, besides the limits of the pod and its namespace. Empty:
	// no caller.
	Caller string
	// Since leaves out older lines. Zero: none.
	Since time.Time
	// TailLines and LimitBytes limit what is read. Nil: no limit.
	TailLines, LimitBytes *int64
	// Timestamps begins each line with its time.
	Timestamps bool
	// Stdout and Stderr get the lines, one write at a time.
	Stdout, Stderr io.Writer
	// Idle is called when all of the log has been read and a Follow waits for more. Its error ends the reading.
	Idle func() error
}

// holders returns the pod, namespace and caller that a Follow counts for.
func (in LogInput) holders() []share.Holder {
	out := []share.Holder{{Name: "pod " + string(in.UID)}, {Name: "namespace " + in.Namespace}}
	if in.Caller != "" {
		out = append(out, share.Holder{Name: "caller " + in.Caller})
	}
	return out
}

// maxFollows is how many logs are followed at once: each takes a descriptor and up to 48 KiB. A single holder gets up
// to 192.
const maxFollows = 512

// askRunning is the least pause between two requests of a Follow for the container's state: a container that writes
// without a pause would cause a thousand a second. With many follows the pause grows, so that all together cause at
// most 64 requests a second.
const askRunning, askedOften = 500 * time.Millisecond, 32

// ReadLog reads a container's log to its end; with Follow, to the container's end. It returns ErrNoLog or
// ErrTooManyFollows before it writes anything.
func (r *Runtime) ReadLog(ctx context.Context, in LogInput) error {
	l := containerlog.Log{
		Dir: r.cfg.LogsDir, Name: logName(in.Namespace, in.Name, in.UID, in.Container, in.Attempt),
		Since: in.Since, Tail: in.TailLines, Limit: in.LimitBytes, Timestamps: in.Timestamps, Stdout: in.Stdout, Stderr: in.Stderr,
	}
	if in.Follow && in.ContainerID != "" {
		leave, err := r.follows.Take(in.holders()...)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrTooManyFollows, err)
		}
		defer leave()
		l.Watch = &r.logWatch
		l.Running = (&followed{runtime: r.cfg.Runtime, id: in.ContainerID, idle: in.Idle, pause: r.askPause}).running
	}
	err := containerlog.Read(ctx, l)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNoLog
	}
	if err != nil {
		return fmt.Errorf("read the log of container %s: %w", in.Container, err)
	}
	return nil
}

// logName returns a log's path relative to the directory of all logs.
func logName(namespace, name string, uid types.UID, container string, attempt uint32) string {
	return filepath.Join(podmeta.LogDir("", namespace, name, uid), podmeta.LogPath(container, attempt))
}

// askPause returns how long a Follow uses the runtime's last answer.
func (r *Runtime) askPause() time.Duration {
	follows, _ := r.follows.Taken()
	return askRunning * time.Duration(max(follows, askedOften)) / askedOften
}

// followed is a container whose log is followed.
type followed struct {
	runtime internalapi.RuntimeService
	id      string
	idle    func() error
	pause   func() time.Duration
	// last is the runtime's last answer, and asked when it was requested.
	last  bool
	asked time.Time
}

// running reports whether the container still runs, by an answer of the runtime that may be askPause old. A removed
// container has ended. An unreachable runtime ends no Follow.
func (f *followed) running(ctx context.Context) (bool, error) {
	if f.idle != nil {
		if err := f.idle(); err != nil {
			return false, err
		}
	}
	if f.last && time.Since(f.asked) < f.pause() {
		return true, nil
	}
	f.asked = time.Now()
	resp, err := f.runtime.ContainerStatus(ctx, f.id, false)
	switch status.Code(err) {
	case codes.OK:
		f.last = resp.GetStatus().GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING
	case codes.NotFound:
		f.last = false
	case codes.Unavailable:
		f.last = true
	default:
		return false, err
	}
	return f.last, nil
}
