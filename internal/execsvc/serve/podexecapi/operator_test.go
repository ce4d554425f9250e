package podexecapi

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	"github.com/podstream/podstream/internal/logtest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// callers begin a call of each method that acts in a container of the pod "two", and return its first response's error.
var callers = map[string]func(t *testing.T, c podexecv1.PodExecServiceClient) error{
	"Exec": func(t *testing.T, c podexecv1.PodExecServiceClient) error {
		stream, err := c.Exec(t.Context())
		if err == nil {
			_ = stream.Send(startMessage(startMain()))
			_, err = stream.Recv()
		}
		return err
	},
	"Attach": func(t *testing.T, c podexecv1.PodExecServiceClient) error {
		stream, err := c.Attach(t.Context())
		if err == nil {
			_ = stream.Send(&podexecv1.AttachRequest{Message: &podexecv1.AttachRequest_Start{Start: &podexecv1.AttachStart{
				Ref: &podconfigv1.PodRef{Name: "two"}, Container: "main",
			}}})
			_, err = stream.Recv()
		}
		return err
	},
	"PortForward": func(t *testing.T, c podexecv1.PodExecServiceClient) error {
		stream, err := c.PortForward(t.Context())
		if err == nil {
			_ = stream.Send(startForward(80))
			_, err = stream.Recv()
		}
		return err
	},
	"Copy": func(t *testing.T, c podexecv1.PodExecServiceClient) error {
		stream, err := c.Copy(t.Context())
		if err == nil {
			_ = stream.Send(startCopy(podexecv1.CopyStart_DIRECTION_FROM_CONTAINER, "/data"))
			_, err = stream.Recv()
		}
		return err
	},
}

// acting is a Server whose runtime does nothing, until the calls end.
func acting(log *logtest.Buffer) *Server {
	hold := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	return New(Config{
		Board: boardOf(twoContainers()), Logger: slog.New(slog.NewTextHandler(log, nil)),
		Exec: command(func(ctx context.Context, in runtime.ExecInput) (int, error) {
			if in.Command[0] == "sh" {
				return 0, nil
			}
			return 0, hold(ctx)
		}),
		Attach: attacher(func(ctx context.Context, _ runtime.ExecInput) error { return hold(ctx) }),
		Ports:  forwarder(func(ctx context.Context, _ runtime.PortInput) error { return hold(ctx) }),
	})
}

// TestOperatorsOnly: a caller with another role, or without the pod in its scope, can't act in a container; without a
// runtime no caller can. Acts are logged with their caller.
func TestOperatorsOnly(t *testing.T) {
	for method, call := range callers {
		t.Run(method, func(t *testing.T) {
			var log logtest.Buffer
			for want, caller := range map[codes.Code]access.Caller{
				codes.OK: {Identity: "uid:0", Role: access.Operator}, codes.PermissionDenied: {Identity: "uid:7", Role: access.Consumer},
				codes.NotFound: {Identity: "uid:8", Role: access.Operator, Sources: []string{"api"}},
			} {
				if err := call(t, remote(t, acting(&log), caller)); status.Code(err) != want {
					t.Errorf("as %s: %v; want %s", caller.Identity, err, want)
				}
			}
			if err := call(t, remote(t, New(Config{Board: boardOf(twoContainers())}), operator)); status.Code(err) != codes.Unimplemented {
				t.Errorf("without a runtime: %v", err)
			}
			if log.Count() != 1 || log.Count("caller=uid:0", "pod=default/two", "uid=uid-two") != 1 {
				t.Errorf("logged:\n%s", &log)
			}
		})
	}
}

// TestCommandIsNotLogged: a command may have a password.
func TestCommandIsNotLogged(t *testing.T) {
	var log logtest.Buffer
	if err := callers["Exec"](t, remote(t, acting(&log), operator)); err != nil {
		t.Fatal(err)
	}
	if log.Count("action=exec", "container=main") != 1 || log.Count("sh") != 0 {
		t.Errorf("logged:\n%s", &log)
	}
}

// TestForwardsAreLoggedOnce: further connections of a caller to a port that it forwards aren't logged.
func TestForwardsAreLoggedOnce(t *testing.T) {
	var log logtest.Buffer
	client := remote(t, acting(&log), operator)
	for range 3 {
		if err := callers["PortForward"](t, client); err != nil {
			t.Fatal(err)
		}
	}
	if log.Count() != 1 || log.Count("port=80") != 1 {
		t.Errorf("logged:\n%s", &log)
	}
}

// TestLimits: a caller gets no more than its share of each limit, and all callers no more than the node's. An error
// names the pod.
func TestLimits(t *testing.T) {
	pod := twoContainers()
	for what, tc := range map[string]struct {
		take         func(s slots, ctx context.Context) (func(), error)
		all, perEach int
	}{
		"exec":    {func(s slots, ctx context.Context) (func(), error) { return s.exec(ctx, pod) }, maxExecs, maxExecsPerCaller},
		"attach":  {func(s slots, ctx context.Context) (func(), error) { return s.attach(ctx, pod) }, maxAttached, maxAttachedPerCaller},
		"connect": {func(s slots, ctx context.Context) (func(), error) { return s.connect(ctx, pod, false) }, maxConnections, maxConnectionsPerCaller},
		"forward": {func(s slots, ctx context.Context) (func(), error) { return s.connect(ctx, pod, true) }, maxForwards, maxForwardsPerCaller},
		"copy":    {func(s slots, ctx context.Context) (func(), error) { return s.copy(ctx, pod) }, maxCopies, maxCopiesPerCaller},
	} {
		s, taken, refused := newSlots(), 0, 0
		for i := range tc.all/tc.perEach + 1 {
			ctx := access.NewContext(t.Context(), access.Caller{Identity: fmt.Sprint("uid:", i)})
			for range tc.perEach + 1 {
				leave, err := tc.take(s, ctx)
				if err == nil {
					taken++
					defer leave()
					continue
				}
				refused++
				if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "pod default/two") {
					t.Errorf("%s: %v", what, err)
				}
			}
		}
		if taken != tc.all || refused != tc.all/tc.perEach+tc.perEach+1 {
			t.Errorf("%s: %d taken and %d refused; want %d of %d for each", what, taken, refused, tc.all, tc.perEach)
		}
	}
}

// TestLimitOfConnections: calls beyond the limit fail, and the end of one makes place for another.
func TestLimitOfConnections(t *testing.T) {
	var log logtest.Buffer
	client := remote(t, acting(&log), operator)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range maxConnectionsPerCaller {
		stream, err := client.PortForward(ctx)
		if err == nil {
			err = stream.Send(startForward(80))
		}
		if err == nil {
			_, err = stream.Recv()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := callers["PortForward"](t, client); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("beyond the limit: %v", err)
	}
	cancel()
	for {
		err := callers["PortForward"](t, client)
		if err == nil {
			break
		}
		if status.Code(err) != codes.ResourceExhausted {
			t.Fatal(err)
		}
	}
}
