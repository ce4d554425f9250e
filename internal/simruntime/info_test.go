package simruntime

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	remote "k8s.io/cri-client/pkg"
)

// The runtime is ready from its first call.
func TestRuntimeInfo(t *testing.T) {
	h := start(t, Config{})
	version, err := h.runtime.Version(t.Context(), "")
	if err != nil || version.GetRuntimeName() != runtimeName || version.GetRuntimeApiVersion() != "v1" {
		t.Errorf("Version: %v, %v", version, err)
	}
	state, err := h.runtime.Status(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]bool)
	for _, c := range state.GetStatus().GetConditions() {
		got[c.GetType()] = c.GetStatus()
	}
	if !got[runtimeapi.RuntimeReady] || !got[runtimeapi.NetworkReady] {
		t.Errorf("conditions: %v", got)
	}
	config, err := h.runtime.RuntimeConfig(t.Context())
	if err != nil || config.GetLinux().GetCgroupDriver() != runtimeapi.CgroupDriver_CGROUPFS {
		t.Errorf("RuntimeConfig: %v, %v", config, err)
	}
	if err := h.runtime.UpdateRuntimeConfig(t.Context(), &runtimeapi.RuntimeConfig{}); err != nil {
		t.Errorf("UpdateRuntimeConfig: %v", err)
	}
}

// Lists of statistics contain the running objects, with their attributes.
func TestStats(t *testing.T) {
	h := start(t, Config{})
	sandbox, pod := h.pod("p")
	runs := h.run(sandbox, pod, containerConfig("runs"))
	done := h.run(sandbox, pod, containerConfig("done", "exit", "0"))
	stopped, _ := h.pod("stopped")
	if err := h.runtime.StopPodSandbox(t.Context(), stopped); err != nil {
		t.Fatal(err)
	}
	containers, err := h.runtime.ListContainerStats(t.Context(), &runtimeapi.ContainerStatsFilter{PodSandboxId: sandbox})
	if err != nil || len(containers) != 1 || containers[0].GetAttributes().GetId() != runs || containers[0].GetCpu().GetTimestamp() == 0 {
		t.Errorf("containers: %v, %v", containers, err)
	}
	if one, err := h.runtime.ContainerStats(t.Context(), done); err != nil || one.GetAttributes().GetMetadata().GetName() != "done" {
		t.Errorf("container: %v, %v", one, err)
	}
	sandboxes, err := h.runtime.ListPodSandboxStats(t.Context(), nil)
	if err != nil || len(sandboxes) != 1 || sandboxes[0].GetAttributes().GetId() != sandbox || len(sandboxes[0].GetLinux().GetContainers()) != 1 {
		t.Errorf("sandboxes: %v, %v", sandboxes, err)
	}
	if one, err := h.runtime.PodSandboxStats(t.Context(), stopped); err != nil || one.GetAttributes().GetMetadata().GetName() != "stopped" {
		t.Errorf("sandbox: %v, %v", one, err)
	}
	if _, err := h.runtime.ContainerStats(t.Context(), "unknown"); status.Code(err) != codes.NotFound {
		t.Errorf("unknown container: %v", err)
	}
	if _, err := h.runtime.PodSandboxStats(t.Context(), "unknown"); status.Code(err) != codes.NotFound {
		t.Errorf("unknown sandbox: %v", err)
	}
}

// With ListStreams, a client that requests streamed lists gets all items. Without it, the client uses the plain calls.
func TestListStreams(t *testing.T) {
	for _, enabled := range []bool{true, false} {
		t.Run(fmt.Sprint(enabled), func(t *testing.T) {
			h := start(t, Config{ListStreams: enabled})
			for i := range 2*streamBatch + 1 {
				name := fmt.Sprint("p", i)
				h.sample(name)
				if _, err := h.pull("sim/" + name); err != nil {
					t.Fatal(err)
				}
			}
			streaming, err := remote.NewRemoteRuntimeServiceBuilder().WithEndpoint(h.endpoint).WithConnectionTimeout(time.Minute).WithUseStreaming(true).Build(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer streaming.Close(t.Context())
			streamingImages, err := remote.NewRemoteImageServiceBuilder().WithEndpoint(h.endpoint).WithConnectionTimeout(time.Minute).WithUseStreaming(true).Build(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer streamingImages.Close(t.Context())
			sandboxes, err1 := streaming.ListPodSandbox(t.Context(), nil)
			containers, err2 := streaming.ListContainers(t.Context(), nil)
			stats, err3 := streaming.ListContainerStats(t.Context(), nil)
			podStats, err4 := streaming.ListPodSandboxStats(t.Context(), nil)
			images, err5 := streamingImages.ListImages(t.Context(), nil)
			for what, n := range map[string]int{
				"sandboxes": len(sandboxes), "containers": len(containers), "stats": len(stats), "sandbox stats": len(podStats),
				"images": len(images) - 1, // and the imported image
			} {
				if n != 2*streamBatch+1 {
					t.Errorf("%d %s", n, what)
				}
			}
			for _, err := range []error{err1, err2, err3, err4, err5} {
				if err != nil {
					t.Error(err)
				}
			}
			// The client tries the stream first. It uses the plain call only if the stream is Unimplemented.
			if calls := h.Calls(); calls["StreamPodSandboxes"] != 1 || (calls["ListPodSandbox"] == 0) != enabled {
				t.Errorf("calls: %v", calls)
			}
		})
	}
}
