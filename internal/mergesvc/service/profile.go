package service

import (
	"bufio"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/profile"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// profilePart is the size of one message of a profile, in bytes.
const profilePart = 64 << 10

// GetProfile is part of podconfig.v1.PodConfigService.
func (s *Server) GetProfile(req *podconfigv1.GetProfileRequest, stream grpc.ServerStreamingServer[podconfigv1.GetProfileResponse]) error {
	caller, err := callerOf(stream.Context())
	if err != nil {
		return err
	}
	if len(caller.Nodes) > 0 || len(caller.Sources) > 0 {
		return permissionDenied("an operator whose scope is some nodes or sources can't profile podconfigd")
	}
	s.log.Info("an operator profiles podconfigd", "profile", req.GetName(), "duration", req.GetDuration().AsDuration(), "identity", caller.Identity)
	out := bufio.NewWriterSize(profileWriter{stream}, profilePart)
	err = profile.Write(stream.Context(), out, req.GetName(), req.GetDuration().AsDuration())
	switch {
	case errors.Is(err, profile.ErrUnknown):
		return status.Errorf(codes.InvalidArgument, "name: %v", err)
	case errors.Is(err, profile.ErrDuration):
		return status.Errorf(codes.InvalidArgument, "duration: %v", err)
	case errors.Is(err, profile.ErrBusy):
		return status.Error(codes.ResourceExhausted, err.Error())
	case err != nil:
		return statusOf(err)
	}
	return out.Flush()
}

// profileWriter sends what is written in parts.
type profileWriter struct {
	stream grpc.ServerStreamingServer[podconfigv1.GetProfileResponse]
}

func (w profileWriter) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		part := p[:min(len(p), profilePart)]
		if err := w.stream.Send(&podconfigv1.GetProfileResponse{Data: part}); err != nil {
			return n, err
		}
		n, p = n+len(part), p[len(part):]
	}
	return n, nil
}
