package podexecapi

import (
	"context"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// Attacher connects to the main processes of containers: a runtime.Runtime.
type Attacher interface {
	Attach(ctx context.Context, in runtime.ExecInput) error
}

type attachStream = grpc.BidiStreamingServer[podexecv1.AttachRequest, podexecv1.AttachResponse]

// Attach is part of podexec.v1.PodExecService.
func (s *Server) Attach(stream attachStream) error {
	if s.cfg.Attach == nil {
		return unimplemented("this podexecd attaches to no containers")
	}
	if err := permit(stream.Context(), podexecv1.PodExecService_Attach_FullMethodName); err != nil {
		return err
	}
	ctx, cancel := s.untilClosed(stream.Context())
	defer cancel()
	start, err := startOf(ctx, s, stream, (*podexecv1.AttachRequest).GetStart)
	if err != nil {
		return err
	}
	to, err := s.target(ctx, start)
	if err != nil {
		return err
	}
	leave, err := s.slots.attach(ctx, to.pod)
	if err != nil {
		return err
	}
	defer leave()
	if to.defaulted != nil {
		if err := stream.Send(&podexecv1.AttachResponse{Message: &podexecv1.AttachResponse_Defaulted{Defaulted: to.defaulted}}); err != nil {
			return err
		}
	}
	opened := attachOpened(to, start.GetStdin())
	if err := stream.Send(&podexecv1.AttachResponse{Message: &podexecv1.AttachResponse_Opened{Opened: opened}}); err != nil {
		return err
	}
	s.acted(ctx, "attach", to)
	p := session[podexecv1.AttachRequest, podexecv1.AttachResponse]{
		// The caller sends input before it knows that the container has none.
		stream: stream, input: attachInput, stdin: opened.GetStdin(), discard: start.GetStdin(), size: start.GetSize(),
		stdout: func(p []byte) *podexecv1.AttachResponse {
			return &podexecv1.AttachResponse{Message: &podexecv1.AttachResponse_Stdout{Stdout: p}}
		},
		stderr: func(p []byte) *podexecv1.AttachResponse {
			return &podexecv1.AttachResponse{Message: &podexecv1.AttachResponse_Stderr{Stderr: p}}
		},
	}
	return p.run(ctx, s, runtime.ExecInput{ContainerID: to.id, TTY: opened.GetTty()}, func(ctx context.Context, in runtime.ExecInput) error {
		if err := s.cfg.Attach.Attach(ctx, in); err != nil {
			return attachError(err, to)
		}
		return nil
	})
}

// attachOpened describes the container's process. A process has a terminal and standard input from its start, or never.
func attachOpened(to target, stdin bool) *podexecv1.AttachOpened {
	opened := &podexecv1.AttachOpened{Container: to.container, Stdin: stdin}
	if to.spec != nil {
		opened.Tty, opened.Stdin = to.spec.TTY, stdin && to.spec.Stdin
	}
	if to.pod.Object != nil {
		opened.RestartsAlways = to.pod.Object.Spec.RestartPolicy == v1.RestartPolicyAlways
	}
	return opened
}

func attachInput(m *podexecv1.AttachRequest) input {
	switch m := m.GetMessage().(type) {
	case *podexecv1.AttachRequest_Stdin:
		return piece(m.Stdin)
	case *podexecv1.AttachRequest_StdinClosed:
		return input{closed: true}
	case *podexecv1.AttachRequest_Resize:
		return input{size: m.Resize}
	case *podexecv1.AttachRequest_Start:
		return input{mistake: errStartedBefore}
	default:
		return input{}
	}
}

// piece is a piece of data of a caller.
func piece(data []byte) input {
	if len(data) > maxPiece {
		return input{mistake: errLongPiece}
	}
	return input{data: data}
}
