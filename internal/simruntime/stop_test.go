package simruntime

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// stopping stops a container in the background, and returns a channel for the call's result.
func (h *harness) stopping(ctx context.Context, id string, timeout int64) <-chan error {
	done := make(chan error, 1)
	go func() { done <- h.runtime.StopContainer(ctx, id, timeout) }()
	return done
}

// Most programs end on SIGTERM, so that the stop returns at once.
func TestStopWithGrace(t *testing.T) {
	h := start(t, Config{})
	for _, test := range []struct {
		name   string
		args   []string
		code   int32
		reason string
	}{
		{"serve", []string{"serve"}, 143, "Error"},
		{"sleep", []string{"sleep", "1h"}, 143, "Error"},
		{"exit", []string{"exit", "7", "1h"}, 143, "Error"},
		{"pause", []string{"pause"}, 0, "Completed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			id := h.sample(test.name, test.args...)
			if err := h.runtime.StopContainer(t.Context(), id, 3600); err != nil {
				t.Fatal(err)
			}
			h.wantExit(id, test.code, test.reason)
		})
	}
}

// A program that ignores SIGTERM receives it once, runs until the timeout, and is then killed.
func TestStopKillsAfterTheTimeout(t *testing.T) {
	h := start(t, Config{})
	id := h.sample("c", "ignore-term")
	done := h.stopping(t.Context(), id, 30)
	h.waitTimer(30 * time.Second)
	h.clock.Step(30*time.Second - 1)
	if s := h.status(id); s.GetState() != running {
		t.Fatalf("before the timeout: %v", s)
	}
	// A second stop sends no second SIGTERM, and its shorter timeout applies.
	second := h.stopping(t.Context(), id, 10)
	h.waitTimer(10 * time.Second)
	h.clock.Step(1)
	for _, call := range []<-chan error{done, second} {
		if err := <-call; err != nil {
			t.Error(err)
		}
	}
	h.wantExit(id, 137, "Error")
	if log := h.logs("c"); log != "stdout F ignored a signal\n" {
		t.Errorf("log %q, want one SIGTERM", log)
	}
}

// A timeout of zero kills at once, also while another stop waits for its grace period.
func TestStopWithoutGrace(t *testing.T) {
	h := start(t, Config{})
	id := h.sample("c", "ignore-term")
	patient := h.stopping(t.Context(), id, 3600)
	h.waitTimer(time.Hour)
	if err := h.runtime.StopContainer(t.Context(), id, 0); err != nil {
		t.Fatal(err)
	}
	h.wantExit(id, 137, "Error")
	if err := <-patient; err != nil {
		t.Error(err)
	}
}

// If the caller cancels the stop, the container has received SIGTERM and isn't killed.
func TestStopIsAbandoned(t *testing.T) {
	h := start(t, Config{})
	id := h.sample("c", "ignore-term")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		// Without the client, which returns before the server detects the end of the call.
		service := &runtimeService{Server: h.Server}
		_, err := service.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: 30})
		done <- err
	}()
	h.waitTimer(30 * time.Second)
	cancel()
	if err := <-done; status.Code(err) != codes.Canceled {
		t.Errorf("StopContainer: %v", err)
	}
	h.clock.Step(time.Hour)
	if s := h.status(id); s.GetState() != running {
		t.Errorf("the container is %v", s)
	}
}

// Stop and remove can be repeated, and succeed for objects that never existed.
func TestStopAndRemoveAreIdempotent(t *testing.T) {
	h := start(t, Config{})
	sandbox, pod := h.pod("p")
	fresh := h.create(sandbox, pod, containerConfig("fresh"))
	ended := h.run(sandbox, pod, containerConfig("ended", "exit", "5"))
	for _, id := range []string{fresh, ended, "unknown"} {
		if err := h.runtime.StopContainer(t.Context(), id, 5); err != nil {
			t.Errorf("stop %s: %v", id, err)
		}
	}
	// The stops have no effect on a created container.
	if s := h.status(fresh); s.GetState() != created {
		t.Errorf("created container is %v", s)
	}
	h.wantExit(ended, 5, "Error")

	// Removing kills what runs.
	runs := h.run(sandbox, pod, containerConfig("runs", "ignore-term"))
	for _, id := range []string{fresh, ended, runs, runs, "unknown"} {
		if err := h.runtime.RemoveContainer(t.Context(), id); err != nil {
			t.Errorf("remove %s: %v", id, err)
		}
		if _, err := h.runtime.ContainerStatus(t.Context(), id, false); status.Code(err) != codes.NotFound {
			t.Errorf("status after remove: %v", err)
		}
	}
	for range 2 {
		if err := h.runtime.StopPodSandbox(t.Context(), sandbox); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		if err := h.runtime.RemovePodSandbox(t.Context(), sandbox); err != nil {
			t.Error(err)
		}
	}
	if err := h.runtime.StopPodSandbox(t.Context(), sandbox); err != nil {
		t.Error(err)
	}
	if _, err := h.runtime.PodSandboxStatus(t.Context(), sandbox, false); status.Code(err) != codes.NotFound {
		t.Errorf("status after remove: %v", err)
	}
}
