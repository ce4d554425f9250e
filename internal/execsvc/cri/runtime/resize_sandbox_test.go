package runtime

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// sandboxes records the resizes of sandboxes, and answers with err.
type sandboxes struct {
	internalapi.RuntimeService
	err  error
	sent []*runtimeapi.UpdatePodSandboxResourcesRequest
}

func (r *sandboxes) UpdatePodSandboxResources(
	_ context.Context, req *runtimeapi.UpdatePodSandboxResourcesRequest,
) (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
	r.sent = append(r.sent, req)
	return &runtimeapi.UpdatePodSandboxResourcesResponse{}, r.err
}

// The runtime gets the resources of the pod as a whole, besides those of the sandbox itself. A runtime that doesn't
// implement the call gets it once; after another error the call is repeated the next time.
func TestResizeSandbox(t *testing.T) {
	s := newSim(t)
	sent := &sandboxes{RuntimeService: s.CRI, err: errors.New("busy")}
	s.with(func(c *Config) { c.Runtime = sent })
	pod := simPod(sized(sample("a"), "100Mi"))
	s.ResizeSandbox(t.Context(), pod, s.status(pod))
	if len(sent.sent) > 0 {
		t.Error("the runtime was told of a sandbox that isn't there")
	}
	s.mustSync(pod)
	limits := v1.ResourceList{v1.ResourceMemory: resource.MustParse("300Mi"), v1.ResourceCPU: resource.MustParse("2")}
	pod.Spec.Resources = &v1.ResourceRequirements{Requests: limits, Limits: limits}
	pod.Spec.Overhead = v1.ResourceList{v1.ResourceMemory: resource.MustParse("8Mi")}
	has := s.status(pod)
	s.ResizeSandbox(t.Context(), pod, has)
	sent.err = status.Error(codes.Unimplemented, "unknown method")
	s.ResizeSandbox(t.Context(), pod, has)
	s.ResizeSandbox(t.Context(), pod, has)
	if len(sent.sent) != 2 {
		t.Fatalf("the runtime was told %d times; want 2", len(sent.sent))
	}
	got := sent.sent[0]
	if got.GetPodSandboxId() != has.Sandboxes[0].ID || got.GetResources().GetMemoryLimitInBytes() != 300<<20 ||
		got.GetResources().GetCpuShares() != 2048 || got.GetOverhead().GetMemoryLimitInBytes() != 8<<20 {
		t.Errorf("the runtime was told %v", got)
	}
}
