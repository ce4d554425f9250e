package podexecapi

import (
	"google.golang.org/grpc"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// PullImage is part of podexec.v1.PodExecService.
func (s *Server) PullImage(req *podexecv1.PullImageRequest, stream grpc.ServerStreamingServer[podexecv1.PullImageResponse]) error {
	if s.cfg.Images == nil {
		return unimplemented("this podexecd pulls no images")
	}
	if _, err := s.nodeView(stream.Context(), podexecv1.PodExecService_PullImage_FullMethodName); err != nil {
		return err
	}
	if req.GetImage() == "" {
		return invalidArgument("image: is empty")
	}
	ctx, cancel := s.untilClosed(stream.Context())
	defer cancel()
	pull, err := s.cfg.Images.Request(req.GetImage())
	if err != nil {
		return requestError(err)
	}
	defer pull.Close()
	for {
		if err := stream.Send(&podexecv1.PullImageResponse{Event: &podexecv1.PullImageResponse_Pull{Pull: pull.Pull().Message()}}); err != nil {
			return err
		}
		select {
		case <-pull.Changed():
			continue
		case <-ctx.Done():
			return s.ended(ctx)
		case <-pull.Ended():
		}
		image, err := pull.Result()
		if err != nil {
			return requestError(err)
		}
		return stream.Send(&podexecv1.PullImageResponse{Event: &podexecv1.PullImageResponse_Pulled{
			Pulled: &podexecv1.PulledImage{Id: valid(image.ID), SizeBytes: image.Bytes},
		}})
	}
}
