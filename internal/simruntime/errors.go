package simruntime

import (
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// containerd sets a code in few errors; most reach the caller as Unknown, which gRPC makes of a plain error. So the
// services return plain errors, and the functions below make those with a code.

// notFound returns the error for a missing object that the text names.
func notFound(format string, args ...any) error {
	return status.Error(codes.NotFound, fmt.Sprintf(format, args...)+": not found")
}

// unimplemented returns the error for a call that isn't simulated.
func unimplemented(what string) error {
	return status.Error(codes.Unimplemented, "the simulated runtime has no "+what)
}

// ended converts the error of a call's context (never nil).
func ended(err error) error { return status.FromContextError(err).Err() }
