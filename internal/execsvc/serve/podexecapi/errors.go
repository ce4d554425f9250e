package podexecapi

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/execsvc/cri/image"
	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	"github.com/podstream/podstream/internal/execsvc/decide/actions"
	"github.com/podstream/podstream/internal/execsvc/loop/restarts"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/claimvolumes"
)

// ErrNoRuntime is returned until the container runtime has answered for the first time.
var ErrNoRuntime = errors.New("the container runtime doesn't answer yet")

// Errors of a request, before anything was read.

var (
	errNotStarted    = invalidArgument("start: must be the first message")
	errStartedBefore = invalidArgument("start: came before")
	errUnfinished    = invalidArgument("data_closed: the messages ended without it")
	errLongPiece     = invalidArgument("a message has more than %d bytes of data", maxPiece)
)

func invalidArgument(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

func permissionDenied(format string, args ...any) error {
	return status.Errorf(codes.PermissionDenied, format, args...)
}

// unimplemented is for a Server without a runtime.
func unimplemented(format string, args ...any) error {
	return status.Errorf(codes.Unimplemented, format, args...)
}

// Errors of the state of a pod or container.

func notFound(format string, args ...any) error {
	return status.Errorf(codes.NotFound, format, args...)
}

// failedPrecondition is for a container that may be ready later.
func failedPrecondition(format string, args ...any) error {
	return status.Errorf(codes.FailedPrecondition, format, args...)
}

// resourceExhausted is for a limit that the caller, or the node, has reached.
func resourceExhausted(format string, args ...any) error {
	return status.Errorf(codes.ResourceExhausted, format, args...)
}

func internal(format string, args ...any) error {
	return status.Errorf(codes.Internal, format, args...)
}

// restartError converts an error of Restarter.
func restartError(err error) error {
	text := valid(err.Error())
	switch {
	case errors.Is(err, actions.ErrUnknownContainer):
		return invalidArgument("container: %s", text)
	case errors.Is(err, actions.ErrNotRestartable), errors.Is(err, restarts.ErrRefused), errors.Is(err, restarts.ErrEnded), errors.Is(err, ErrNoRuntime):
		return failedPrecondition("%s", text)
	case errors.Is(err, restarts.ErrTooMany):
		return status.Error(codes.ResourceExhausted, text)
	default:
		return internal("%s", text)
	}
}

// Errors of the runtime, and of a stream's end.

// logError converts an error of LogReader.
func logError(err error, container, pod string) error {
	switch {
	case errors.Is(err, runtime.ErrNoLog):
		return notFound("the log of container %s of pod %s isn't there any more", container, pod)
	case errors.Is(err, runtime.ErrTooManyFollows):
		return status.Error(codes.ResourceExhausted, err.Error())
	default:
		return status.Error(codes.Internal, valid(err.Error()))
	}
}

// execError converts an error of Execer.
func execError(err error) error { return status.Error(codes.FailedPrecondition, valid(err.Error())) }

// attachError converts an error of Attacher.
func attachError(err error, to target) error {
	return failedPrecondition("container %s of pod %s: %s", to.container, name(to.pod), valid(err.Error()))
}

// tarError converts an error of tar, or of Execer. said is what tar has printed.
func tarError(err error, code int, to target, said string) error {
	where := fmt.Sprintf("container %s of pod %s", to.container, name(to.pod))
	switch {
	case err != nil && strings.Contains(err.Error(), "executable file") && strings.Contains(err.Error(), "not found"):
		return failedPrecondition("%s has no tar, and files are copied with it: %s", where, valid(err.Error()))
	case err != nil:
		return failedPrecondition("run tar in %s: %s", where, valid(err.Error()))
	case noSuchProgram(code):
		return failedPrecondition("%s has no tar that can be run, and files are copied with it: exit code %d", where, code)
	default:
		return failedPrecondition("tar in %s failed with exit code %d: %s", where, code, valid(said))
	}
}

// portError converts an error of PortForwarder.
func portError(err error, port int32, p podview.Pod) error {
	return failedPrecondition("port %d of pod %s: %s", port, name(p), valid(err.Error()))
}

// requestError converts an error of Images.Request, or of the pull.
func requestError(err error) error {
	code := codes.FailedPrecondition
	switch {
	case errors.Is(err, image.ErrReference):
		code = codes.InvalidArgument
	case errors.Is(err, image.ErrTooManyRequests):
		code = codes.ResourceExhausted
	case errors.Is(err, image.ErrClosed):
		code = codes.Unavailable
	case status.Code(err) == codes.NotFound:
		code = codes.NotFound
	}
	return status.Error(code, valid(err.Error()))
}

// runtimeError converts an error of the container runtime. what is what can't be done.
func (v view) runtimeError(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	return failedPrecondition("can't %s: %s", what, v.errorText(err))
}

// volumeError converts an error of Volumes.
func volumeError(ctx context.Context, err error) error {
	text := valid(err.Error())
	switch {
	case errors.Is(err, claimvolumes.ErrName), errors.Is(err, claimvolumes.ErrRefused):
		return invalidArgument("%s", text)
	case errors.Is(err, claimvolumes.ErrMissing):
		return notFound("%s", text)
	case errors.Is(err, claimvolumes.ErrUnknown):
		return status.Error(codes.Unknown, text)
	case errors.Is(err, claimvolumes.ErrStalled):
		return status.Error(codes.DeadlineExceeded, text)
	case status.Code(err) == codes.InvalidArgument: // A mistake in the caller's messages.
		return err
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	}
	return failedPrecondition("%s", text)
}

// ended returns the error of a stream whose context, of untilClosed, has ended.
func (s *Server) ended(ctx context.Context) error {
	if s.closing.Err() != nil {
		return status.Error(codes.Unavailable, "podexecd is going down; ask again")
	}
	return status.FromContextError(ctx.Err()).Err()
}
