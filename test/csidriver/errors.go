package csidriver

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The answers of the services. All codes are chosen here and where these are called.

func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

func notFound(format string, args ...any) error {
	return status.Errorf(codes.NotFound, format, args...)
}

func conflict(format string, args ...any) error {
	return status.Errorf(codes.AlreadyExists, format, args...)
}

func precondition(format string, args ...any) error {
	return status.Errorf(codes.FailedPrecondition, format, args...)
}

// internal is the answer for an error of the machine. Errors with a code keep it.
func internal(err error) error {
	if _, has := status.FromError(err); has {
		return err
	}
	return status.Error(codes.Internal, err.Error())
}

// required returns an error for the first field that is empty: names and values alternate.
func required(fields ...string) error {
	for i := 0; i < len(fields); i += 2 {
		if fields[i+1] == "" {
			return invalid("%s is missing", fields[i])
		}
	}
	return nil
}
