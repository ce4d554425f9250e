package simruntime

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// watch subscribes, and returns once the runtime listens.
func (h *harness) watch() <-chan *runtimeapi.ContainerEventResponse {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	events := make(chan *runtimeapi.ContainerEventResponse, 100)
	subscribed, done := make(chan error, 1), make(chan error, 1)
	go func() {
		done <- h.runtime.GetContainerEvents(ctx, events, func(stream runtimeapi.RuntimeService_GetContainerEventsClient) {
			_, err := stream.Header()
			subscribed <- err
		})
	}()
	h.t.Cleanup(func() {
		cancel()
		if err := <-done; status.Code(err) != codes.Canceled {
			h.t.Errorf("GetContainerEvents: %v", err)
		}
	})
	if err := <-subscribed; err != nil {
		h.t.Fatal(err)
	}
	return events
}

// told is an event in short: what happened to whom, and all states of the sandbox then.
func (h *harness) told(e *runtimeapi.ContainerEventResponse, names map[string]string) string {
	words := []string{names[e.GetContainerId()], strings.TrimSuffix(strings.TrimPrefix(e.GetContainerEventType().String(), "CONTAINER_"), "_EVENT")}
	if s := e.GetPodSandboxStatus(); s != nil {
		words = append(words, strings.TrimPrefix(s.GetState().String(), "SANDBOX_"))
	}
	var states []string
	for _, c := range e.GetContainersStatuses() {
		states = append(states, c.GetMetadata().GetName()+"="+strings.TrimPrefix(c.GetState().String(), "CONTAINER_"))
	}
	slices.Sort(states)
	return strings.Join(append(words, states...), " ")
}

// Each change is told with the state of the whole pod after it. A container that couldn't start is told of by nobody.
func TestEvents(t *testing.T) {
	h := start(t, Config{})
	events := h.watch()
	sandbox, pod := h.pod("p")
	c := h.create(sandbox, pod, containerConfig("c", "exit", "2", "5s"))
	bad := h.create(sandbox, pod, containerConfig("bad", "fail-start"))
	names := map[string]string{sandbox: "pod", c: "c", bad: "bad"}
	if err := h.runtime.StartContainer(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := h.runtime.StartContainer(t.Context(), bad); err == nil {
		t.Fatal("fail-start started")
	}
	h.clock.Step(5 * time.Second)
	h.waitExit(c)
	if err := h.runtime.RemoveContainer(t.Context(), bad); err != nil {
		t.Fatal(err)
	}
	if err := h.runtime.StopPodSandbox(t.Context(), sandbox); err != nil {
		t.Fatal(err)
	}
	if err := h.runtime.RemovePodSandbox(t.Context(), sandbox); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"pod CREATED READY",
		"pod STARTED READY",
		"c CREATED READY c=CREATED",
		"bad CREATED READY bad=CREATED c=CREATED",
		"c STARTED READY bad=CREATED c=RUNNING",
		"c STOPPED READY bad=EXITED c=EXITED",
		"bad DELETED READY c=EXITED",
		"pod STOPPED NOTREADY c=EXITED",
		"c DELETED NOTREADY",
		"pod DELETED NOTREADY",
	} {
		if got := h.told(<-events, names); got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	}
}

// What happens before a subscription isn't told in it, and all subscribers are told.
func TestEventsToSubscribers(t *testing.T) {
	h := start(t, Config{})
	c := h.sample("c")
	first, second := h.watch(), h.watch()
	if err := h.runtime.StopContainer(t.Context(), c, 10); err != nil {
		t.Fatal(err)
	}
	for _, events := range []<-chan *runtimeapi.ContainerEventResponse{first, second} {
		if got := h.told(<-events, map[string]string{c: "c"}); got != "c STOPPED READY c=EXITED" {
			t.Errorf("told %q", got)
		}
	}
}

func TestNoEvents(t *testing.T) {
	h := start(t, Config{NoEvents: true})
	err := h.runtime.GetContainerEvents(t.Context(), nil, nil)
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("GetContainerEvents: %v", err)
	}
}
