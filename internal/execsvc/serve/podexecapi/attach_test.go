package podexecapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// attacher is what is done instead of an attach.
type attacher func(ctx context.Context, in runtime.ExecInput) error

func (a attacher) Attach(ctx context.Context, in runtime.ExecInput) error { return a(ctx, in) }

// reading is twoContainers with a main container that changes.
func reading(change func(*v1.Container)) podview.Pod {
	p := twoContainers()
	change(&p.Object.Spec.Containers[0])
	return p
}

func withStdin(c *v1.Container) { c.Stdin = true }

// attach begins a call to the container main of p, and sends these messages after the start.
func attach(
	t *testing.T, p podview.Pod, a attacher, start *podexecv1.AttachStart, messages ...*podexecv1.AttachRequest,
) grpc.BidiStreamingClient[podexecv1.AttachRequest, podexecv1.AttachResponse] {
	t.Helper()
	stream, err := remote(t, New(Config{Board: boardOf(p), Attach: a}), operator).Attach(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	start.Ref = &podconfigv1.PodRef{Name: "two"}
	if start.Container == "" {
		start.Container = "main"
	}
	for _, m := range append([]*podexecv1.AttachRequest{{Message: &podexecv1.AttachRequest_Start{Start: start}}}, messages...) {
		if err := stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	return stream
}

func typed(text string) *podexecv1.AttachRequest {
	return &podexecv1.AttachRequest{Message: &podexecv1.AttachRequest_Stdin{Stdin: []byte(text)}}
}

// attachedTo reads a call to its end.
func attachedTo(stream grpc.BidiStreamingClient[podexecv1.AttachRequest, podexecv1.AttachResponse]) (
	opened *podexecv1.AttachOpened, stdout, stderr string, err error,
) {
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return opened, stdout, stderr, nil
		}
		if err != nil {
			return opened, stdout, stderr, err
		}
		switch m := m.GetMessage().(type) {
		case *podexecv1.AttachResponse_Opened:
			opened = m.Opened
		case *podexecv1.AttachResponse_Stdout:
			stdout += string(m.Stdout)
		case *podexecv1.AttachResponse_Stderr:
			stderr += string(m.Stderr)
		}
	}
}

// The caller's input, its end and the process's output pass.
func TestAttach(t *testing.T) {
	var asked runtime.ExecInput
	stream := attach(t, reading(withStdin), func(_ context.Context, in runtime.ExecInput) error {
		asked = in
		text, err := io.ReadAll(in.Stdin)
		fmt.Fprintf(in.Stdout, "read %s", text)
		fmt.Fprint(in.Stderr, "aside")
		return err
	}, &podexecv1.AttachStart{Stdin: true}, typed("one "), typed("two"),
		&podexecv1.AttachRequest{Message: &podexecv1.AttachRequest_StdinClosed{StdinClosed: true}})
	opened, stdout, stderr, err := attachedTo(stream)
	if err != nil || stdout != "read one two" || stderr != "aside" {
		t.Errorf("stdout %q, stderr %q, %v", stdout, stderr, err)
	}
	if diff := cmp.Diff(&podexecv1.AttachOpened{Container: "main", Stdin: true}, opened, protocmp.Transform()); diff != "" {
		t.Errorf("opened (-want +got):\n%s", diff)
	}
	if asked.ContainerID != "id-main" || len(asked.Command) > 0 || asked.TTY || asked.Resize != nil {
		t.Errorf("asked for %+v", asked)
	}
}

// The container's spec, and not the caller, decides whether there is a terminal and standard input. Input of a
// container without is dropped.
func TestAttachOpened(t *testing.T) {
	input := []*podexecv1.AttachRequest{typed("lost"), {Message: &podexecv1.AttachRequest_Resize{Resize: &podexecv1.TerminalSize{Width: 9, Height: 9}}}}
	for name, tc := range map[string]struct {
		change func(*podview.Pod)
		stdin  bool
		want   *podexecv1.AttachOpened
	}{
		"without stdin":    {func(*podview.Pod) {}, true, &podexecv1.AttachOpened{Container: "main"}},
		"stdin not wanted": {func(p *podview.Pod) { withStdin(&p.Object.Spec.Containers[0]) }, false, &podexecv1.AttachOpened{Container: "main"}},
		"a terminal": {func(p *podview.Pod) { p.Object.Spec.Containers[0].TTY = true }, false,
			&podexecv1.AttachOpened{Container: "main", Tty: true}},
		"restarts": {func(p *podview.Pod) { p.Object.Spec.RestartPolicy = v1.RestartPolicyAlways }, false,
			&podexecv1.AttachOpened{Container: "main", RestartsAlways: true}},
		"only a status": {func(p *podview.Pod) { p.Object = nil }, true, &podexecv1.AttachOpened{Container: "main", Stdin: true}},
	} {
		t.Run(name, func(t *testing.T) {
			p := twoContainers()
			tc.change(&p)
			var messages []*podexecv1.AttachRequest
			if tc.stdin {
				messages = input
			}
			stream := attach(t, p, func(_ context.Context, in runtime.ExecInput) error {
				if in.TTY != tc.want.GetTty() || (in.Stdin != nil) != tc.want.GetStdin() {
					t.Errorf("asked for %+v", in)
				}
				return nil
			}, &podexecv1.AttachStart{Stdin: tc.stdin}, messages...)
			opened, _, _, err := attachedTo(stream)
			if diff := cmp.Diff(tc.want, opened, protocmp.Transform()); diff != "" || err != nil {
				t.Errorf("%v, opened (-want +got):\n%s", err, diff)
			}
		})
	}
}

// A terminal gets the caller's sizes.
func TestAttachTerminal(t *testing.T) {
	p := reading(func(c *v1.Container) { c.Stdin, c.TTY = true, true })
	first := make(chan struct{})
	stream := attach(t, p, func(_ context.Context, in runtime.ExecInput) error {
		fmt.Fprint(in.Stdout, <-in.Resize)
		close(first)
		fmt.Fprint(in.Stdout, <-in.Resize)
		return nil
	}, &podexecv1.AttachStart{Stdin: true, Size: &podexecv1.TerminalSize{Width: 80, Height: 24}})
	<-first
	size := &podexecv1.TerminalSize{Width: 100, Height: 30}
	if err := stream.Send(&podexecv1.AttachRequest{Message: &podexecv1.AttachRequest_Resize{Resize: size}}); err != nil {
		t.Fatal(err)
	}
	if opened, stdout, _, err := attachedTo(stream); !opened.GetTty() || stdout != "{80 24}{100 30}" || err != nil {
		t.Errorf("opened %v, stdout %q, %v", opened, stdout, err)
	}
}

func TestAttachRefuses(t *testing.T) {
	waits := attacher(func(ctx context.Context, _ runtime.ExecInput) error {
		<-ctx.Done()
		return ctx.Err()
	})
	start := &podexecv1.AttachRequest{Message: &podexecv1.AttachRequest_Start{Start: &podexecv1.AttachStart{}}}
	for name, tc := range map[string]struct {
		start    *podexecv1.AttachStart
		messages []*podexecv1.AttachRequest
		want     codes.Code
		word     string
	}{
		"started twice":             {&podexecv1.AttachStart{}, []*podexecv1.AttachRequest{start}, codes.InvalidArgument, "start"},
		"unexpected input":          {&podexecv1.AttachStart{}, []*podexecv1.AttachRequest{typed("x")}, codes.InvalidArgument, "stdin"},
		"a long piece":              {&podexecv1.AttachStart{Stdin: true}, []*podexecv1.AttachRequest{typed(strings.Repeat("x", maxPiece+1))}, codes.InvalidArgument, "65536"},
		"a container that waits":    {&podexecv1.AttachStart{Container: "side"}, nil, codes.FailedPrecondition, "ImagePullBackOff"},
		"a container that has gone": {&podexecv1.AttachStart{Container: "prepare"}, nil, codes.FailedPrecondition, "has ended"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, _, err := attachedTo(attach(t, reading(withStdin), waits, tc.start, tc.messages...))
			if status.Code(err) != tc.want || !strings.Contains(status.Convert(err).Message(), tc.word) {
				t.Errorf("error %v; want %s with %q", err, tc.want, tc.word)
			}
		})
	}
	failing := attacher(func(context.Context, runtime.ExecInput) error { return errors.New("no streams") })
	if _, _, _, err := attachedTo(attach(t, twoContainers(), failing, &podexecv1.AttachStart{})); status.Code(err) != codes.FailedPrecondition ||
		!strings.Contains(err.Error(), "container main of pod default/two: no streams") {
		t.Errorf("the runtime's error is %v", err)
	}
}
