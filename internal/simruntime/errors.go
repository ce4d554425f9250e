package simruntime

import (
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// containerd sets a code in few errors. Most reach the caller as Unknown, because gRPC converts a plain error to it.
// So the services return plain errors, and the functions below create the errors with a code.

// notFound returns the error for a missing object. The text identifies the object.
func notFound(format string, args ...any) error {
	return status.Error(codes.NotFound, fmt.Sprintf(format, args...)+": not found")
}

// unimplemented returns the error for a call that isn't simulated.
func unimplemented(what string) error {
	return status.Error(codes.Unimplemented, "the simulated runtime has no "+what)
}

// ended converts the error of a call's context (never nil).
func ended(err error) error { return status.FromContextError(err).Err() }
