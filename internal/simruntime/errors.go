package simruntime

import (
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// containerd gives a code to few errors; most reach the caller as Unknown, which is what gRPC makes of a plain error. So the
// services return plain errors, and those that have a code are made here.

// notFound says that the thing which the text names isn't there.
func notFound(format string, args ...any) error {
	return status.Error(codes.NotFound, fmt.Sprintf(format, args...)+": not found")
}

// unimplemented says what the simulation leaves out.
func unimplemented(what string) error {
	return status.Error(codes.Unimplemented, "the simulated runtime has no "+what)
}

// ended turns the end of a call's context (never nil) into the call's error.
func ended(err error) error { return status.FromContextError(err).Err() }
