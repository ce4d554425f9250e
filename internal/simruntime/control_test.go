package simruntime

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/clocktest"
	"github.com/podstream/podstream/internal/simruntime/simtest"
)

func TestExitContainer(t *testing.T) {
	h := start(t, Config{})
	id := h.sample("c")
	if err := h.ExitContainer(id, 42); err != nil {
		t.Fatal(err)
	}
	h.wantExit(id, 42, "Error")
	if err := h.ExitContainer(id, 0); !errors.Is(err, ErrNotRunning) {
		t.Errorf("again: %v", err)
	}
	if err := h.ExitContainer("unknown", 0); !errors.Is(err, ErrUnknown) {
		t.Errorf("unknown: %v", err)
	}
}

// A killed sandbox isn't ready and its containers have exited, but its network stays until it is stopped.
func TestKillSandbox(t *testing.T) {
	h := start(t, Config{})
	sandbox, pod := h.pod("p")
	id := h.run(sandbox, pod, containerConfig("c"))
	if err := h.KillSandbox(sandbox); err != nil {
		t.Fatal(err)
	}
	if s := h.sandboxStatus(sandbox); s.GetState() != notReady || s.GetNetwork().GetIp() == "" {
		t.Errorf("sandbox: %v", s)
	}
	h.wantExit(id, 137, "Error")
	if err := h.KillSandbox("unknown"); !errors.Is(err, ErrUnknown) {
		t.Errorf("unknown: %v", err)
	}
}

// After DropAll there are no objects, and all names are free. Calls that wait for a container's end return.
func TestDropAll(t *testing.T) {
	h := start(t, Config{})
	id := h.sample("c", "ignore-term")
	done := h.stopping(t.Context(), id, 3600)
	h.waitTimer(time.Hour)
	h.DropAll()
	if err := <-done; err != nil {
		t.Errorf("StopContainer: %v", err)
	}
	sandboxes, err := h.runtime.ListPodSandbox(t.Context(), nil)
	if err != nil || len(sandboxes) > 0 {
		t.Errorf("sandboxes: %v, %v", sandboxes, err)
	}
	if _, err := h.runtime.ContainerStatus(t.Context(), id, false); status.Code(err) != codes.NotFound {
		t.Errorf("container: %v", err)
	}
	h.sample("c")
}

// DropPod removes the sandbox and containers of one pod, and its names and address are free. Other pods stay.
func TestDropPod(t *testing.T) {
	h := start(t, Config{})
	stays := h.sample("stays")
	id := h.sample("goes", "ignore-term")
	done := h.stopping(t.Context(), id, 3600)
	h.waitTimer(time.Hour)
	if err := h.DropPod("uid-goes"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("StopContainer: %v", err)
	}
	if _, err := h.runtime.ContainerStatus(t.Context(), id, false); status.Code(err) != codes.NotFound {
		t.Errorf("container: %v", err)
	}
	if err := h.DropPod("uid-goes"); !errors.Is(err, ErrUnknown) {
		t.Errorf("again: %v", err)
	}
	if s := h.status(stays); s.GetState() != running {
		t.Errorf("the other pod's container is %v", s.GetState())
	}
	h.sample("goes")
	if n := len(h.addresses.used); n != 2 {
		t.Errorf("%d addresses are in use", n)
	}
}

// A fault makes its call fail before the call has an effect. Failed calls are counted too.
func TestFault(t *testing.T) {
	h := start(t, Config{Fault: func(_ context.Context, method string, req any) error {
		if r, ok := req.(*runtimeapi.RunPodSandboxRequest); ok && method == "RunPodSandbox" && r.GetConfig().GetMetadata().GetName() == "doomed" {
			return status.Error(codes.ResourceExhausted, "no room")
		}
		if method == "GetContainerEvents" {
			return errors.New("no events today")
		}
		return nil
	}})
	if _, err := h.runtime.RunPodSandbox(t.Context(), podConfig("doomed"), ""); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("doomed: %v", err)
	}
	h.pod("fine")
	if list, err := h.runtime.ListPodSandbox(t.Context(), nil); err != nil || len(list) != 1 {
		t.Errorf("sandboxes: %v, %v", list, err)
	}
	if err := h.runtime.GetContainerEvents(t.Context(), nil, nil); status.Code(err) != codes.Unknown {
		t.Errorf("events: %v", err)
	}
	calls := h.Calls()
	if calls["RunPodSandbox"] != 2 || calls["GetContainerEvents"] != 1 || calls["StartContainer"] != 0 {
		t.Errorf("calls: %v", calls)
	}
}

// A fault that blocks simulates a runtime that hangs. The call ends when the caller cancels it.
func TestFaultThatHangs(t *testing.T) {
	hanging := make(chan struct{})
	h := start(t, Config{Fault: func(ctx context.Context, method string, _ any) error {
		if method != "Status" {
			return nil
		}
		close(hanging)
		<-ctx.Done()
		return ctx.Err()
	}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := h.runtime.Status(ctx, false)
		done <- err
	}()
	<-hanging
	cancel()
	if err := <-done; status.Code(err) != codes.Canceled {
		t.Errorf("Status: %v", err)
	}
}

// Containers survive the end of one Serve and the start of the next, and end in between if their lifetime is over.
// Calls in progress are cut off.
func TestServeAgain(t *testing.T) {
	clock := clocktest.NewTimers(time.Unix(1_000_000, 0))
	s := New(Config{Clock: clock})
	defer s.Close()
	h := &harness{Server: s, t: t, clock: clock, dir: t.TempDir()}
	endpoint, stop := simtest.Start(t, s)
	h.connect(endpoint)
	stays, ends := h.sample("stays", "ignore-term"), h.sample("ends", "exit", "6", "1m")
	call := h.stopping(t.Context(), stays, 3600)
	h.waitTimer(time.Hour)
	stop()
	if err := <-call; err == nil {
		t.Error("a call succeeded after its server stopped")
	}
	clock.Step(time.Minute)
	h.waitExit(ends)

	endpoint, stop = simtest.Start(t, s)
	defer stop()
	h.connect(endpoint)
	if got := h.status(stays); got.GetState() != running {
		t.Errorf("container is %v", got.GetState())
	}
	h.wantExit(ends, 6, "Error")
}

// Serve also ends if its context has ended before the call.
func TestServeAfterTheEnd(t *testing.T) {
	h := start(t, Config{})
	_, stop := simtest.Start(t, h.Server)
	stop()
}
