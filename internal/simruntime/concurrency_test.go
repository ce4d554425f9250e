package simruntime

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"
)

// Concurrent callers, on separate pods and on a shared one, leave a consistent state: all pods can be stopped and
// removed, and nothing is left.
func TestManyCallers(t *testing.T) {
	h := start(t, Config{Clock: clock.RealClock{}})
	events := h.watch()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // read the events during the test
		for {
			select {
			case <-events:
			case <-ctx.Done():
				return
			}
		}
	}()
	shared, sharedConfig := h.pod("shared")
	var callers sync.WaitGroup
	for n := range 8 {
		callers.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(n)))
			for round := range 5 {
				h.runAndRemovePod(fmt.Sprintf("pod-%d-%d", n, round), random)
			}
		})
		// Errors are expected here, because all callers use the same names and remove each other's containers.
		callers.Go(func() {
			for range 10 {
				if id, err := h.runtime.CreateContainer(ctx, shared, containerConfig("contested", "exit", "0", "1ms"), sharedConfig); err == nil {
					_ = h.runtime.StartContainer(ctx, id)
				}
				list, err := h.runtime.ListContainers(ctx, &runtimeapi.ContainerFilter{PodSandboxId: shared})
				if err != nil {
					t.Error(err)
				}
				for _, c := range list {
					_ = h.runtime.StopContainer(ctx, c.GetId(), 1)
					_ = h.runtime.RemoveContainer(ctx, c.GetId())
				}
			}
		})
	}
	callers.Wait()
	if err := h.runtime.RemovePodSandbox(ctx, shared); err != nil {
		t.Error(err)
	}
	h.Server.mu.Lock()
	defer h.Server.mu.Unlock()
	if n := len(h.sandboxes) + len(h.containers) + len(h.sandboxNames) + len(h.containerNames) + len(h.addresses.used); n > 0 {
		t.Errorf("left: %v %v %v %v %v", h.sandboxes, h.containers, h.sandboxNames, h.containerNames, h.addresses.used)
	}
}

// runAndRemovePod runs a pod, stops it and removes it.
func (h *harness) runAndRemovePod(name string, random *rand.Rand) {
	ctx := h.t.Context()
	config := podConfig(name)
	sandbox, err := h.runtime.RunPodSandbox(ctx, config, "")
	if err != nil {
		h.t.Error(err)
		return
	}
	for i, args := range [][]string{{"serve"}, {"ignore-term"}, {"exit", "1", "1ms"}, {"exit", "0"}} {
		id, err := h.runtime.CreateContainer(ctx, sandbox, containerConfig(fmt.Sprint("c", i), args...), config)
		if err != nil {
			h.t.Error(err)
			continue
		}
		if err := h.runtime.StartContainer(ctx, id); err != nil {
			h.t.Error(err)
		}
		if random.IntN(2) == 0 {
			if err := h.runtime.StopContainer(ctx, id, 0); err != nil {
				h.t.Error(err)
			}
			if s, err := h.runtime.ContainerStatus(ctx, id, false); err != nil || s.GetStatus().GetState() != exited {
				h.t.Errorf("after the stop: %v, %v", s, err)
			}
		}
	}
	if random.IntN(2) == 0 {
		if err := h.runtime.StopPodSandbox(ctx, sandbox); err != nil {
			h.t.Error(err)
		}
	}
	if err := h.runtime.RemovePodSandbox(ctx, sandbox); err != nil {
		h.t.Error(err)
	}
}
