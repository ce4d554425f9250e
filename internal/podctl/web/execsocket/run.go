package execsocket

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/podstream/podstream/internal/podctl/web/plaintext"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// execution is the stream to podexecd.
type execution = grpc.BidiStreamingClient[podexecv1.ExecRequest, podexecv1.ExecResponse]

// run runs the command, and returns its exit code. A page that goes away ends the command's input, and the stream.
func (c *connection) run(ctx context.Context, open *podwebv1.ExecOpen) (int32, error) {
	d := c.handler.cfg.Podexecd
	ref, err := c.handler.ref(open.GetAction())
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	stream, err := podexecv1.NewPodExecServiceClient(d.Conn).Exec(ctx)
	if err != nil {
		cancel()
		return 0, d.Explain(err)
	}
	start := &podexecv1.ExecStart{
		Ref: ref, Container: open.GetAction().GetContainer(), Command: open.GetAction().GetCommand(), Stdin: true,
		Tty: open.GetAction().GetTty(),
	}
	if size := open.GetSize(); size != nil && start.GetTty() {
		start.Size = terminalSize(size)
	}
	if err := stream.Send(&podexecv1.ExecRequest{Message: &podexecv1.ExecRequest_Start{Start: start}}); err != nil && !errors.Is(err, io.EOF) {
		cancel()
		return 0, d.Explain(err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer func() {
		cancel()
		_ = c.ws.SetReadDeadline(time.Now()) // It ends forward.
	}()
	wg.Go(func() {
		defer cancel()
		c.forward(ctx, stream)
	})
	wg.Go(func() { c.keepAlive(ctx) })
	return c.output(stream, start.GetContainer())
}

func terminalSize(size *podwebv1.TerminalSize) *podexecv1.TerminalSize {
	const most = 1 << 15
	return &podexecv1.TerminalSize{Width: min(size.GetWidth(), most), Height: min(size.GetHeight(), most)}
}

// output sends the command's output to the page until the command has ended.
func (c *connection) output(stream execution, container string) (int32, error) {
	if err := c.send(startedIn(container)); err != nil {
		return 0, err
	}
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return 0, errors.New("podexecd ended the stream without the command's exit code")
		case err != nil:
			return 0, c.handler.cfg.Podexecd.Explain(err)
		}
		out := &podwebv1.ExecServerMessage{}
		switch m := m.GetMessage().(type) {
		case *podexecv1.ExecResponse_Stdout:
			out.Message = &podwebv1.ExecServerMessage_Stdout{Stdout: m.Stdout}
		case *podexecv1.ExecResponse_Stderr:
			out.Message = &podwebv1.ExecServerMessage_Stderr{Stderr: m.Stderr}
		case *podexecv1.ExecResponse_Defaulted:
			out = startedIn(m.Defaulted.GetName())
		case *podexecv1.ExecResponse_ExitCode:
			return m.ExitCode, nil
		default:
			continue
		}
		if err := c.send(out); err != nil {
			return 0, err
		}
	}
}

func startedIn(container string) *podwebv1.ExecServerMessage {
	return &podwebv1.ExecServerMessage{Message: &podwebv1.ExecServerMessage_Started{
		Started: &podwebv1.ExecStarted{Container: plaintext.Line(container, plaintext.Name)},
	}}
}

// forward passes the page's messages on until the page goes away, or one isn't valid.
func (c *connection) forward(ctx context.Context, stream execution) {
	// run ends ctx before it sets a deadline of its own: after one of these, ctx has ended, or that one comes later.
	alive := func() error { return errors.Join(c.ws.SetReadDeadline(time.Now().Add(pongTime)), ctx.Err()) }
	c.ws.SetPongHandler(func(string) error { return alive() })
	if alive() != nil {
		return
	}
	for {
		m, err := c.receive()
		if err != nil || alive() != nil {
			return
		}
		c.handler.cfg.Touch()
		var request *podexecv1.ExecRequest
		switch m := m.GetMessage().(type) {
		case *podwebv1.ExecClientMessage_Stdin:
			request = &podexecv1.ExecRequest{Message: &podexecv1.ExecRequest_Stdin{Stdin: m.Stdin}}
		case *podwebv1.ExecClientMessage_StdinClosed:
			request = &podexecv1.ExecRequest{Message: &podexecv1.ExecRequest_StdinClosed{StdinClosed: true}}
		case *podwebv1.ExecClientMessage_Resize:
			request = &podexecv1.ExecRequest{Message: &podexecv1.ExecRequest_Resize{Resize: terminalSize(m.Resize)}}
		default:
			return
		}
		if stream.Send(request) != nil {
			return
		}
	}
}
