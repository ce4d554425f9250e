package podexecapi

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// maxPiece is the limit of a log's or command's output in one message.
const maxPiece = 64 << 10

// LogReader reads containers' logs: a runtime.Runtime.
type LogReader interface {
	// ReadLog returns runtime.ErrNoLog if the log doesn't exist, and runtime.ErrTooManyFollows as documented there.
	ReadLog(ctx context.Context, in runtime.LogInput) error
}

// ReadLogs is part of podexec.v1.PodExecService.
func (s *Server) ReadLogs(req *podexecv1.ReadLogsRequest, stream grpc.ServerStreamingServer[podexecv1.ReadLogsResponse]) error {
	if s.cfg.Logs == nil {
		return unimplemented("this podexecd reads no logs")
	}
	if err := permit(stream.Context(), podexecv1.PodExecService_ReadLogs_FullMethodName); err != nil {
		return err
	}
	v, err := s.view(stream.Context(), nil)
	if err != nil {
		return err
	}
	if err := checkLogBounds(req); err != nil {
		return err
	}
	pod, err := v.find(s.cfg.Board, req.GetRef())
	if err != nil {
		return err
	}
	c, err := container(pod, req.GetContainer())
	if err != nil {
		return err
	}
	attempts, err := attemptsOf(c.ContainerStatus, req.GetPrevious())
	if err != nil {
		return err
	}
	ctx, cancel := s.untilClosed(stream.Context())
	defer cancel()
	if c.defaulted != nil {
		if err := stream.Send(&podexecv1.ReadLogsResponse{Defaulted: c.defaulted}); err != nil {
			return err
		}
	}
	sender := &logSender{stream: stream}
	in := runtime.LogInput{
		UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Container: c.Name, Follow: req.GetFollow() && !req.GetPrevious(),
		TailLines: req.TailLines, LimitBytes: req.LimitBytes, Timestamps: req.GetTimestamps(),
		Stdout: sender.writer(false), Stderr: sender.writer(true), Idle: sender.flush,
	}
	if since := req.GetSinceTime(); since != nil {
		in.Since = since.AsTime()
	}
	if c.State.Running != nil && !req.GetPrevious() {
		in.ContainerID = runtimeID(c.ContainerID)
	}
	if caller, _ := access.FromContext(ctx); caller.Role < access.Operator {
		in.Caller = caller.Identity
	}
	err = runtime.ErrNoLog
	for _, in.Attempt = range attempts {
		if err = s.cfg.Logs.ReadLog(ctx, in); !errors.Is(err, runtime.ErrNoLog) {
			break
		}
	}
	switch {
	case ctx.Err() != nil:
		return s.ended(ctx)
	case err != nil:
		return logError(err, c.Name, pod.Name)
	}
	return sender.flush()
}

func checkLogBounds(req *podexecv1.ReadLogsRequest) error {
	switch {
	case req.GetTailLines() < 0:
		return invalidArgument("tail_lines: is %d", req.GetTailLines())
	case req.GetLimitBytes() < 0:
		return invalidArgument("limit_bytes: is %d", req.GetLimitBytes())
	case req.GetSinceTime() != nil && !req.GetSinceTime().IsValid():
		return invalidArgument("since_time: isn't a time")
	}
	return nil
}

// attemptsOf returns the attempts of a container whose log may be the requested one, the most probable first. While
// a container waits to be restarted, its last attempt is both the current and the previous one, as in the kubelet;
// its restart count may already be that of the next attempt.
func attemptsOf(c *v1.ContainerStatus, previous bool) ([]uint32, error) {
	latest := uint32(max(c.RestartCount, 0)) //nolint:gosec // It isn't negative.
	began := c.State.Running != nil || c.State.Terminated != nil
	switch {
	case began && !previous:
		return []uint32{latest}, nil
	case began && latest > 0:
		return []uint32{latest - 1}, nil
	case !began && c.LastTerminationState.Terminated != nil && latest > 0:
		return []uint32{latest, latest - 1}, nil
	case !began && c.LastTerminationState.Terminated != nil:
		return []uint32{latest}, nil
	case previous:
		return nil, notFound("there was no container %s before the present one", c.Name)
	default:
		return nil, failedPrecondition("container %s is waiting to start: %s", c.Name, waitingReason(c))
	}
}

// logSender gathers lines, and sends them once there are enough of one stream.
type logSender struct {
	stream grpc.ServerStreamingServer[podexecv1.ReadLogsResponse]
	data   []byte
	stderr bool
}

func (l *logSender) writer(stderr bool) writerFunc {
	return func(p []byte) error { return l.add(p, stderr) }
}

func (l *logSender) add(p []byte, stderr bool) error {
	if stderr != l.stderr {
		if err := l.flush(); err != nil {
			return err
		}
		l.stderr = stderr
	}
	for len(p) > 0 {
		n := min(len(p), maxPiece-len(l.data))
		l.data, p = append(l.data, p[:n]...), p[n:]
		if len(l.data) == maxPiece {
			if err := l.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// flush sends the gathered lines.
func (l *logSender) flush() error {
	if len(l.data) == 0 {
		return nil
	}
	data := l.data
	l.data = nil // A message that was sent must not be changed.
	return l.stream.Send(&podexecv1.ReadLogsResponse{Data: data, Stderr: l.stderr})
}
