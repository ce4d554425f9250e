package csi

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// NotRegisteredError is the error of a driver that isn't registered on this node, or not yet.
type NotRegisteredError struct{ Driver string }

// Error has the kubelet's text.
func (e *NotRegisteredError) Error() string {
	return fmt.Sprintf("driver name %s not found in the list of registered CSI drivers", e.Driver)
}

// Error is the error of a call.
type Error struct {
	// Driver is the driver's name, and Method that of the call: "NodeStageVolume".
	Driver, Method string
	Code           codes.Code
	// Message is the driver's, or gRPC's, without secrets. It is bounded, and valid UTF-8.
	Message string
	// Answered reports whether the status is the driver's, not one that gRPC made here.
	Answered bool
}

// Error has gRPC's text, which is the kubelet's in events.
func (e *Error) Error() string {
	return fmt.Sprintf("rpc error: code = %s desc = %s", e.Code, e.Message)
}

// GRPCStatus is for status.Code and status.FromError.
func (e *Error) GRPCStatus() *status.Status { return status.New(e.Code, e.Message) }

// IsFinal reports whether the error of a call says that the driver does nothing for it any more, and that it has changed nothing
// which is to be undone. Otherwise the volume may be staged or published, now or later: the same call must be repeated until its
// result is certain, or its reverse made. Errors that aren't of a call are not final.
func IsFinal(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Answered && finalCode(e.Code)
}

// finalCode reports whether a driver that answers with the code has done nothing. The kubelet decides the same, except
// for AlreadyExists.
func finalCode(code codes.Code) bool {
	switch code {
	case codes.OK:
		// The driver has done it.
		return false
	case codes.Canceled, codes.DeadlineExceeded:
		// The driver gave up waiting. Its operation may continue.
		return false
	case codes.Unavailable, codes.ResourceExhausted:
		// The driver can't answer now. An earlier call for the volume may be under way.
		return false
	case codes.Aborted:
		// CSI: an operation is pending for this volume.
		return false
	case codes.AlreadyExists:
		// CSI: the volume is staged or published at this path, with other arguments. This call has changed nothing, but the
		// volume is mounted, and nothing says that it was undone. To the kubelet this is final.
		return false
	}
	return true
}

// maxMessage is the maximum length of a message in bytes. The kubelet's events have at most 1024.
const maxMessage = 2048

// isLocal reports whether gRPC has made the status itself, for an answer that it couldn't read or that has no status: the driver may
// have done what it was asked for.
func isLocal(code codes.Code, message string) bool {
	return strings.HasPrefix(message, "grpc: ") || strings.HasPrefix(message, "cardinality violation") || code == codes.Unknown && message == ""
}
