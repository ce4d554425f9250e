package service

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/write"
)

// errLeft is returned by deliver if it needs the state at the revision, and the history has just dropped it. A later
// state must not be sent under the cursor of the revision.
var errLeft = errors.New("the revision has left the history")

// errScoped stands for a source's error where the caller's scope is limited: the error may name pods out of it.
var errScoped = errors.New("the source has an error; it isn't shown to a caller whose scope is some nodes, or its own pods")

// statusOf maps an error to a status: one of a context, one of package merge, or else INTERNAL.
func statusOf(err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	case errors.Is(err, merge.ErrNoSource):
		return notFound("%v", err)
	case errors.Is(err, merge.ErrNotRead):
		return unavailable("%v", err)
	default:
		return status.Error(codes.Internal, err.Error())
	}
}

// writeStatus maps an error of a write: one of package write, or one that is a status already.
func writeStatus(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	switch code := writeCode(err); code {
	case codes.Unknown:
		return statusOf(err)
	default:
		return status.Error(code, err.Error())
	}
}

// writeCode returns the code of an error of package write; Unknown: it is another package's.
func writeCode(err error) codes.Code {
	for code, of := range map[codes.Code][]any{
		codes.InvalidArgument:   {new(*write.InvalidError), new(*write.UnmatchedError)},
		codes.AlreadyExists:     {new(*write.ForeignError), new(*write.SameUIDError)},
		codes.Aborted:           {new(*write.MovedError)},
		codes.NotFound:          {new(*write.MissingError)},
		codes.ResourceExhausted: {new(*write.LimitError)},
	} {
		for _, target := range of {
			if errors.As(err, target) {
				return code
			}
		}
	}
	switch {
	case errors.Is(err, write.ErrEmpty):
		return codes.FailedPrecondition
	case errors.Is(err, write.ErrFull):
		return codes.ResourceExhausted
	case errors.Is(err, write.ErrUnconfirmed):
		return codes.Internal
	case errors.Is(err, write.ErrUnready):
		return codes.Unavailable
	case errors.Is(err, write.ErrUnpublished):
		return codes.DeadlineExceeded
	}
	return codes.Unknown
}

// The functions below make the statuses of PodConfigService, one for each code.

// invalidArgument: the request is wrong in any state of podconfigd. The message begins with the field.
func invalidArgument(format string, args ...any) error {
	return statusf(codes.InvalidArgument, format, args)
}

// permissionDenied: the caller's role or identity doesn't allow the request.
func permissionDenied(format string, args ...any) error {
	return statusf(codes.PermissionDenied, format, args)
}

// notFound: what the request names doesn't exist, or is out of the caller's scope.
func notFound(format string, args ...any) error { return statusf(codes.NotFound, format, args) }

// aborted: the page that the request continues is no longer kept; the caller starts again.
func aborted(format string, args ...any) error { return statusf(codes.Aborted, format, args) }

// resourceExhausted: a limit is reached, of the request, of the identity, or of all callers.
func resourceExhausted(format string, args ...any) error {
	return statusf(codes.ResourceExhausted, format, args)
}

// failedPrecondition: podconfigd's configuration or state doesn't allow the request.
func failedPrecondition(format string, args ...any) error {
	return statusf(codes.FailedPrecondition, format, args)
}

// alreadyExists: another pod has the name or UID.
func alreadyExists(format string, args ...any) error {
	return statusf(codes.AlreadyExists, format, args)
}

// unavailable: the same request may succeed later, or elsewhere.
func unavailable(format string, args ...any) error { return statusf(codes.Unavailable, format, args) }

// unimplemented: this podconfigd doesn't have the method.
func unimplemented(format string, args ...any) error {
	return statusf(codes.Unimplemented, format, args)
}

func statusf(code codes.Code, format string, args []any) error {
	return status.Error(code, fmt.Sprintf(format, args...))
}
