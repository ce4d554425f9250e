package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/execsvc/board"
	"github.com/podstream/podstream/internal/execsvc/runtime"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// command is what is run instead of a command.
type command func(ctx context.Context, in runtime.ExecInput) (int, error)

func (c command) Exec(ctx context.Context, in runtime.ExecInput) (int, error) { return c(ctx, in) }

var operator = access.Caller{Role: access.Operator}

func startMain() *podexecv1.ExecStart {
	return &podexecv1.ExecStart{Ref: &podconfigv1.PodRef{Name: "two"}, Container: "main", Command: []string{"sh"}}
}

func startMessage(start *podexecv1.ExecStart) *podexecv1.ExecRequest {
	return &podexecv1.ExecRequest{Message: &podexecv1.ExecRequest_Start{Start: start}}
}

func stdinMessage(text string) *podexecv1.ExecRequest {
	return &podexecv1.ExecRequest{Message: &podexecv1.ExecRequest_Stdin{Stdin: []byte(text)}}
}

func sizeMessage(width, height uint32) *podexecv1.ExecRequest {
	return &podexecv1.ExecRequest{Message: &podexecv1.ExecRequest_Resize{Resize: &podexecv1.TerminalSize{Width: width, Height: height}}}
}

type execClient = grpc.BidiStreamingClient[podexecv1.ExecRequest, podexecv1.ExecResponse]

// execute begins a call, and sends these messages.
func execute(t *testing.T, c command, caller access.Caller, messages ...*podexecv1.ExecRequest) execClient {
	t.Helper()
	stream, err := remote(t, New(Config{Board: boardOf(twoContainers()), Exec: c}), caller).Exec(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if err := stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	return stream
}

// outcome reads a call to its end: what was written, in how many messages, and the exit code.
func outcome(stream execClient) (stdout, stderr string, messages, code int, err error) {
	code = -1
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return stdout, stderr, messages, code, nil
		}
		if err != nil {
			return stdout, stderr, messages, code, err
		}
		messages++
		switch m := m.GetMessage().(type) {
		case *podexecv1.ExecResponse_Stdout:
			stdout += string(m.Stdout)
		case *podexecv1.ExecResponse_Stderr:
			stderr += string(m.Stderr)
		case *podexecv1.ExecResponse_ExitCode:
			code = int(m.ExitCode)
		}
	}
}

func TestExec(t *testing.T) {
	long := strings.Repeat("x", 3*maxPiece/2)
	var asked runtime.ExecInput
	start := startMain()
	start.Stdin = true
	stream := execute(t, func(_ context.Context, in runtime.ExecInput) (int, error) {
		asked = in
		text, err := io.ReadAll(in.Stdin)
		fmt.Fprintf(in.Stdout, "read %s%s", text, long)
		fmt.Fprint(in.Stderr, "a complaint")
		return 7, err
	}, operator, startMessage(start), stdinMessage("one "), stdinMessage("two "),
		&podexecv1.ExecRequest{Message: &podexecv1.ExecRequest_StdinClosed{StdinClosed: true}})
	stdout, stderr, messages, code, err := outcome(stream)
	if err != nil || stdout != "read one two "+long || stderr != "a complaint" || code != 7 || messages != 4 {
		t.Errorf("stdout of %d bytes, stderr %q, %d messages, exit code %d, error %v", len(stdout), stderr, messages, code, err)
	}
	if asked.ContainerID != "id-main" || len(asked.Command) != 1 || asked.TTY || asked.Resize != nil {
		t.Errorf("asked for %+v", asked)
	}
}

// The end of the caller's messages is that of the standard input.
func TestExecStdinEndsWithTheMessages(t *testing.T) {
	start := startMain()
	start.Stdin = true
	stream := execute(t, func(_ context.Context, in runtime.ExecInput) (int, error) {
		_, err := io.Copy(in.Stdout, in.Stdin)
		return 0, err
	}, operator, startMessage(start), stdinMessage("one"))
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if stdout, _, _, code, err := outcome(stream); stdout != "one" || code != 0 || err != nil {
		t.Errorf("stdout %q, exit code %d, error %v", stdout, code, err)
	}
}

// A terminal begins with the size that start gave; of others only the newest counts.
func TestExecTerminal(t *testing.T) {
	start := startMain()
	start.Tty, start.Size = true, &podexecv1.TerminalSize{Width: 80, Height: 24}
	begun := make(chan struct{})
	stream := execute(t, func(_ context.Context, in runtime.ExecInput) (int, error) {
		if !in.TTY || in.Stdin != nil {
			t.Errorf("asked for %+v", in)
		}
		fmt.Fprint(in.Stdout, <-in.Resize)
		close(begun)
		for size := range in.Resize {
			if size.Height == 1 {
				fmt.Fprint(in.Stdout, size)
				return 0, nil
			}
		}
		return 1, nil
	}, operator, startMessage(start))
	<-begun
	for _, m := range []*podexecv1.ExecRequest{sizeMessage(100, 30), sizeMessage(1<<20, 1)} {
		if err := stream.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	if stdout, _, _, code, err := outcome(stream); stdout != "{80 24}{65535 1}" || code != 0 || err != nil {
		t.Errorf("stdout %q, exit code %d, error %v", stdout, code, err)
	}
}

// A command that nobody reads of any more, and one whose caller is gone, end.
func TestExecEndsWithTheCall(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	begun, ended := make(chan struct{}), make(chan error, 1)
	server := New(Config{Board: boardOf(twoContainers()), Exec: command(func(ctx context.Context, in runtime.ExecInput) (int, error) {
		close(begun)
		<-ctx.Done()
		// A runtime may go on for a moment, also after the call.
		go func() {
			for {
				if _, err := io.WriteString(in.Stdout, "more"); err != nil {
					ended <- err
					return
				}
			}
		}()
		return 0, ctx.Err()
	})})
	stream, err := remote(t, server, operator).Exec(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(startMessage(startMain())); err != nil {
		t.Fatal(err)
	}
	<-begun
	cancel()
	if err := <-ended; err == nil {
		t.Error("writing goes on after the call's end")
	}
}

func TestExecEndsWithTheServer(t *testing.T) {
	begun := make(chan struct{})
	server := New(Config{Board: boardOf(twoContainers()), Exec: command(func(ctx context.Context, _ runtime.ExecInput) (int, error) {
		close(begun)
		<-ctx.Done()
		return 0, ctx.Err()
	})})
	stream, err := remote(t, server, operator).Exec(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(startMessage(startMain())); err != nil {
		t.Fatal(err)
	}
	<-begun
	server.Close()
	if _, _, _, _, err := outcome(stream); status.Code(err) != codes.Unavailable {
		t.Errorf("error %v; want UNAVAILABLE", err)
	}
}

// A caller who doesn't say what to run doesn't hold podexecd up when it goes down.
func TestExecWithoutAWordEndsWithTheServer(t *testing.T) {
	server := New(Config{Board: boardOf(twoContainers()), Exec: command(nil)})
	stream, err := remote(t, server, operator).Exec(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("after Close: %v; want UNAVAILABLE", err)
	}
}

func TestExecRefuses(t *testing.T) {
	waits := func(ctx context.Context, _ runtime.ExecInput) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	changed := func(change func(*podexecv1.ExecStart)) *podexecv1.ExecRequest {
		start := startMain()
		change(start)
		return startMessage(start)
	}
	same := startMessage(startMain())
	for _, tc := range []struct {
		name     string
		caller   access.Caller
		messages []*podexecv1.ExecRequest
		want     codes.Code
		word     string
	}{
		{"a consumer", consumer, []*podexecv1.ExecRequest{same}, codes.PermissionDenied, "operator"},
		{"out of scope", access.Caller{Role: access.Operator, Sources: []string{"api"}}, []*podexecv1.ExecRequest{same}, codes.NotFound, "no pod"},
		{"not begun", operator, []*podexecv1.ExecRequest{stdinMessage("x")}, codes.InvalidArgument, "start"},
		{"begun twice", operator, []*podexecv1.ExecRequest{same, same}, codes.InvalidArgument, "start"},
		{"unexpected input", operator, []*podexecv1.ExecRequest{same, stdinMessage("x")}, codes.InvalidArgument, "stdin"},
		{"no command", operator, []*podexecv1.ExecRequest{changed(func(s *podexecv1.ExecStart) { s.Command = nil })}, codes.InvalidArgument, "command"},
		{"another pod", operator, []*podexecv1.ExecRequest{changed(func(s *podexecv1.ExecStart) { s.Ref.Name = "x" })}, codes.NotFound, "no pod"},
		{"no container", operator, []*podexecv1.ExecRequest{changed(func(s *podexecv1.ExecStart) { s.Container = "" })}, codes.InvalidArgument, "main, side, prepare"},
		{"a container that waits", operator, []*podexecv1.ExecRequest{changed(func(s *podexecv1.ExecStart) { s.Container = "side" })}, codes.FailedPrecondition, "ImagePullBackOff"},
		{"a container that has ended", operator, []*podexecv1.ExecRequest{changed(func(s *podexecv1.ExecStart) { s.Container = "prepare" })}, codes.FailedPrecondition, "has ended"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, _, _, err := outcome(execute(t, waits, tc.caller, tc.messages...))
			if status.Code(err) != tc.want || !strings.Contains(status.Convert(err).Message(), tc.word) {
				t.Errorf("error %v; want %s with %q", err, tc.want, tc.word)
			}
		})
	}
}

func TestExecFails(t *testing.T) {
	failing := func(context.Context, runtime.ExecInput) (int, error) { return 0, errors.New("no such file") }
	_, _, _, code, err := outcome(execute(t, failing, operator, startMessage(startMain())))
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "no such file") || code != -1 {
		t.Errorf("exit code %d, error %v; want FAILED_PRECONDITION with its reason", code, err)
	}
	stream, err := remote(t, New(Config{Board: board.New()}), operator).Exec(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, _, err := outcome(stream); status.Code(err) != codes.Unimplemented {
		t.Errorf("without a runtime: %v; want UNIMPLEMENTED", err)
	}
}

// A pod that was begun and has no status yet can't be entered, and says so.
func TestExecWithoutStatus(t *testing.T) {
	p := twoContainers()
	p.Status = nil
	stream, err := remote(t, New(Config{Board: boardOf(p), Exec: command(nil)}), operator).Exec(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(startMessage(startMain())); err != nil {
		t.Fatal(err)
	}
	if _, _, _, _, err := outcome(stream); status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "hasn't been made") {
		t.Errorf("error %v; want FAILED_PRECONDITION", err)
	}
	if reason := waitingReason(&v1.ContainerStatus{State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "X"}}}); reason != "X" {
		t.Errorf("reason %q", reason)
	}
}
