package world

import (
	"errors"
	"fmt"
	"io"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// exec runs a command in a container, and returns its standard output and error together, and its exit code.
func (p *pod) exec(container string, command ...string) (out string, code int32, err error) {
	pod := p.b.pod(p.name)
	if pod == nil {
		return "", 0, errors.New("podexecd has no such pod")
	}
	stream, err := p.b.Exec.Exec(p.ctx)
	if err != nil {
		return "", 0, err
	}
	if err := stream.Send(&podexecv1.ExecRequest{Message: &podexecv1.ExecRequest_Start{Start: &podexecv1.ExecStart{
		Ref:       &podconfigv1.PodRef{Uid: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name},
		Container: container, Command: command,
	}}}); err != nil {
		return "", 0, err
	}
	code = -1
	for {
		msg, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return out, code, nil
		}
		if err != nil {
			return out, code, fmt.Errorf("exec %q: %w", command, err)
		}
		switch m := msg.GetMessage().(type) {
		case *podexecv1.ExecResponse_ExitCode:
			code = m.ExitCode
		default:
			out += string(msg.GetStdout()) + string(msg.GetStderr())
		}
	}
}
