package podexecapi

import (
	"context"

	"google.golang.org/grpc"

	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// Execer runs commands in containers: a runtime.Runtime.
type Execer interface {
	Exec(ctx context.Context, in runtime.ExecInput) (exitCode int, err error)
}

type execStream = grpc.BidiStreamingServer[podexecv1.ExecRequest, podexecv1.ExecResponse]

// Exec is part of podexec.v1.PodExecService.
func (s *Server) Exec(stream execStream) error {
	if s.cfg.Exec == nil {
		return unimplemented("this podexecd runs no commands")
	}
	if err := permit(stream.Context(), podexecv1.PodExecService_Exec_FullMethodName); err != nil {
		return err
	}
	ctx, cancel := s.untilClosed(stream.Context())
	defer cancel()
	start, err := startOf(ctx, s, stream, (*podexecv1.ExecRequest).GetStart)
	if err != nil {
		return err
	}
	if len(start.GetCommand()) == 0 {
		return invalidArgument("start.command: is empty")
	}
	to, err := s.target(ctx, start)
	if err != nil {
		return err
	}
	leave, err := s.slots.exec(ctx, to.pod)
	if err != nil {
		return err
	}
	defer leave()
	if to.defaulted != nil {
		if err := stream.Send(&podexecv1.ExecResponse{Message: &podexecv1.ExecResponse_Defaulted{Defaulted: to.defaulted}}); err != nil {
			return err
		}
	}
	s.acted(ctx, "exec", to)
	p := session[podexecv1.ExecRequest, podexecv1.ExecResponse]{
		stream: stream, input: execInput, stdin: start.GetStdin(), size: start.GetSize(),
		stdout: func(p []byte) *podexecv1.ExecResponse {
			return &podexecv1.ExecResponse{Message: &podexecv1.ExecResponse_Stdout{Stdout: p}}
		},
		stderr: func(p []byte) *podexecv1.ExecResponse {
			return &podexecv1.ExecResponse{Message: &podexecv1.ExecResponse_Stderr{Stderr: p}}
		},
	}
	var code int
	in := runtime.ExecInput{ContainerID: to.id, Command: start.GetCommand(), TTY: start.GetTty()}
	err = p.run(ctx, s, in, func(ctx context.Context, in runtime.ExecInput) (err error) {
		if code, err = s.cfg.Exec.Exec(ctx, in); err != nil {
			return execError(err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return stream.Send(&podexecv1.ExecResponse{Message: &podexecv1.ExecResponse_ExitCode{ExitCode: int32(code)}}) //nolint:gosec // 0 to 255.
}

func execInput(m *podexecv1.ExecRequest) input {
	switch m := m.GetMessage().(type) {
	case *podexecv1.ExecRequest_Stdin:
		return input{data: m.Stdin}
	case *podexecv1.ExecRequest_StdinClosed:
		return input{closed: true}
	case *podexecv1.ExecRequest_Resize:
		return input{size: m.Resize}
	case *podexecv1.ExecRequest_Start:
		return input{mistake: errStartedBefore}
	default:
		return input{}
	}
}
