package podexecapi

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

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
		{"another container", operator, []*podexecv1.ExecRequest{changed(func(s *podexecv1.ExecStart) { s.Container = "x" })}, codes.NotFound, "main, side, prepare"},
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
	stream, err := remote(t, New(Config{Board: podview.New()}), operator).Exec(t.Context())
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
	if _, _, _, _, err := outcome(stream); status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "hasn't been created") {
		t.Errorf("error %v; want FAILED_PRECONDITION", err)
	}
	if reason := waitingReason(&v1.ContainerStatus{State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "X"}}}); reason != "X" {
		t.Errorf("reason %q", reason)
	}
}
