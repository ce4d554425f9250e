package runtime

import (
	"context"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"
)

// silent is a runtime that doesn't tell what its containers are held to.
type silent struct{ internalapi.RuntimeService }

func (r silent) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	resp, err := r.RuntimeService.ContainerStatus(ctx, id, verbose)
	if resp.GetStatus() != nil {
		resp.Status.Resources = nil
	}
	return resp, err
}

// A container starts anew once for its resize, also where the runtime doesn't tell its size and another container can't start.
func TestResizeRestartsOnce(t *testing.T) {
	s := newSim(t)
	s.cfg.Runtime = silent{s.cfg.Runtime}
	pod := func(memory string) *v1.Pod {
		a, b := sized(sample("a"), memory), sample("b")
		a.ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}}
		b.SecurityContext = &v1.SecurityContext{RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](0)}
		return simPod(a, b)
	}
	if res := s.SyncPod(t.Context(), s.input(pod("100Mi"))); res.Err == nil {
		t.Fatal("container b was started")
	}
	before := s.status(pod("100Mi")).Latest("a").ID
	res := s.resizeTo(pod("200Mi"))
	now := s.status(pod("200Mi")).Latest("a").ID
	if now == before || res.Err == nil {
		t.Fatalf("%+v; want container a started anew, and b not", res)
	}
	if calls := s.callsDuring(func() {
		in := s.input(pod("200Mi"))
		in.Resizing = res.Resizing
		s.SyncPod(t.Context(), in)
	}); slices.Contains(calls, "StopContainer") {
		t.Errorf("calls %q; want it left alone", calls)
	}
}
