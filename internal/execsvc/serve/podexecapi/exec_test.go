package podexecapi

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

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
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

// A command whose output isn't read any more, and one whose caller is gone, end.
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

// A caller that names no container receives the name of the default one before any output of the command.
func TestExecDefaulted(t *testing.T) {
	start := startMain()
	start.Container = ""
	stream := execute(t, func(_ context.Context, in runtime.ExecInput) (int, error) {
		_, err := io.WriteString(in.Stdout, in.ContainerID)
		return 0, err
	}, operator, startMessage(start))
	first, err := stream.Recv()
	if err != nil || first.GetDefaulted().GetName() != "main" {
		t.Fatalf("the first message is %v, %v; want that main was taken", first, err)
	}
	if stdout, _, _, code, err := outcome(stream); err != nil || code != 0 || stdout != "id-main" {
		t.Errorf("then %q, exit code %d, error %v; want the command to run in id-main", stdout, code, err)
	}
}

// Commands beyond a caller's limit are refused, and the end of one makes place for another.
func TestLimitOfCommands(t *testing.T) {
	began := make(chan struct{}, maxExecsPerCaller)
	client := remote(t, New(Config{Board: boardOf(twoContainers()), Exec: command(func(ctx context.Context, _ runtime.ExecInput) (int, error) {
		began <- struct{}{}
		<-ctx.Done()
		return 0, ctx.Err()
	})}), operator)
	begin := func(ctx context.Context) execClient {
		stream, err := client.Exec(ctx)
		if err == nil {
			err = stream.Send(startMessage(startMain()))
		}
		if err != nil {
			t.Fatal(err)
		}
		return stream
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range maxExecsPerCaller {
		begin(ctx)
		<-began
	}
	if _, _, _, _, err := outcome(begin(ctx)); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "64 commands running") {
		t.Errorf("beyond the limit: %v", err)
	}
	cancel()
	for again := true; again; { // The places are free soon after the calls have ended.
		ctx, cancel := context.WithCancel(t.Context())
		refused := make(chan error, 1)
		stream := begin(ctx)
		go func() {
			_, _, _, _, err := outcome(stream)
			refused <- err
		}()
		select {
		case <-began:
			again = false
			cancel()
			<-refused
		case err := <-refused:
			if status.Code(err) != codes.ResourceExhausted {
				t.Fatal(err)
			}
		}
		cancel()
	}
}
