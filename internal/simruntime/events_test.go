package simruntime

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	eventCreated = runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT
	eventStarted = runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT
	eventStopped = runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT
	eventDeleted = runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT
)

// watch reads the events until the test ends.
func (h *harness) watch() <-chan *runtimeapi.ContainerEventResponse {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	events := make(chan *runtimeapi.ContainerEventResponse, 100)
	done := make(chan error, 1)
	go func() { done <- h.runtime.GetContainerEvents(ctx, events, nil) }()
	h.t.Cleanup(func() {
		cancel()
		if err := <-done; status.Code(err) != codes.Canceled {
			h.t.Errorf("GetContainerEvents: %v", err)
		}
	})
	return events
}

// describe returns an event in short form: its object, its type, and the states of the sandbox and the containers.
func (h *harness) describe(e *runtimeapi.ContainerEventResponse, names map[string]string) string {
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

// Each event has the state of the whole pod after it, except the last one. There is no event for a container that
// failed to start.
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
		"pod DELETED",
	} {
		if got := h.describe(<-events, names); got != want {
			t.Errorf("event %q, want %q", got, want)
		}
	}
}

// Unread events wait for the next reader, up to a limit. Each event has only one reader.
func TestEventsWait(t *testing.T) {
	h := start(t, Config{})
	sandbox, pod := h.pod("p")
	for range eventBuffer { // two events each, which is more than fit
		id := h.create(sandbox, pod, containerConfig("c"))
		if err := h.runtime.RemoveContainer(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	counts := make(map[runtimeapi.ContainerEventType]int)
	first, second := h.watch(), h.watch()
	for range eventBuffer {
		var event *runtimeapi.ContainerEventResponse
		select {
		case event = <-first:
		case event = <-second:
		}
		counts[event.GetContainerEventType()]++
	}
	if created, deleted := counts[eventCreated], counts[eventDeleted]; created != eventBuffer/2 || deleted != eventBuffer/2-1 {
		t.Errorf("received %d creations and %d deletions", created, deleted)
	}
	if n := len(h.events); n > 0 {
		t.Errorf("%d more events", n)
	}
}

// EventFault decides which events are sent.
func TestEventFault(t *testing.T) {
	var lost []*runtimeapi.ContainerEventResponse
	h := start(t, Config{EventFault: func(event *runtimeapi.ContainerEventResponse) []*runtimeapi.ContainerEventResponse {
		switch event.GetContainerEventType() {
		case eventCreated:
			lost = append(lost, event)
			return nil
		case eventStopped:
			return append([]*runtimeapi.ContainerEventResponse{event, event}, lost...)
		default:
			return []*runtimeapi.ContainerEventResponse{event}
		}
	}})
	h.sample("c", "exit", "0")
	events := h.watch()
	for _, want := range []runtimeapi.ContainerEventType{eventStarted, eventStarted, eventStopped, eventStopped, eventCreated, eventCreated} {
		if event := <-events; event.GetContainerEventType() != want {
			t.Errorf("event %v, want %v", event.GetContainerEventType(), want)
		}
	}
}

// Of many events, some are lost, some are sent twice, and some are delayed.
func TestUnreliableEvents(t *testing.T) {
	fault := UnreliableEvents(rand.New(rand.NewPCG(1, 1)))
	sent := make(map[int64]int)
	var last int64
	late := 0
	const n = 1000
	for i := range int64(n) {
		for _, event := range fault(&runtimeapi.ContainerEventResponse{CreatedAt: i}) {
			sent[event.GetCreatedAt()]++
			if event.GetCreatedAt() < last {
				late++
			}
			last = event.GetCreatedAt()
		}
	}
	doubled := 0
	for _, times := range sent {
		doubled += times - 1
	}
	for name, count := range map[string]int{"lost": n - len(sent), "doubled": doubled, "late": late} {
		if count < n/8 || count > n/2 {
			t.Errorf("%d of %d events were %s", count, n, name)
		}
	}
}

// After a stream has failed, a new one can be opened, and continues where the first one ended.
func TestBreakEvents(t *testing.T) {
	h := start(t, Config{})
	events, done := make(chan *runtimeapi.ContainerEventResponse, 10), make(chan error, 1)
	open := func() { done <- h.runtime.GetContainerEvents(t.Context(), events, nil) }
	go open()
	sandbox, _ := h.pod("p")
	for range 2 { // after these, the stream is known to be open
		<-events
	}
	h.BreakEvents()
	if err := <-done; status.Code(err) != codes.Unavailable {
		t.Errorf("GetContainerEvents: %v", err)
	}
	if err := h.KillSandbox(sandbox); err != nil {
		t.Fatal(err)
	}
	go open()
	if event := <-events; event.GetContainerEventType() != eventStopped {
		t.Errorf("event %v", event)
	}
	h.BreakEvents()
	if err := <-done; status.Code(err) != codes.Unavailable {
		t.Errorf("GetContainerEvents: %v", err)
	}
}

func TestNoEvents(t *testing.T) {
	h := start(t, Config{NoEvents: true})
	err := h.runtime.GetContainerEvents(t.Context(), nil, nil)
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("GetContainerEvents: %v", err)
	}
}
