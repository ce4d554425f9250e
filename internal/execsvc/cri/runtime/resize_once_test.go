package runtime

import (
	"context"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"
)

// silent is a runtime that doesn't report its containers' resources.
type silent struct{ internalapi.RuntimeService }

func (r silent) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	resp, err := r.RuntimeService.ContainerStatus(ctx, id, verbose)
	if resp.GetStatus() != nil {
		resp.Status.Resources = nil
	}
	return resp, err
}

// A container restarts once for its resize, also if the runtime doesn't report its resources and another container
// can't start.
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
		t.Fatalf("%+v; want container a restarted, and b not", res)
	}
	if calls := s.callsDuring(func() {
		in := s.input(pod("200Mi"))
		in.Resizing = res.Resizing
		s.SyncPod(t.Context(), in)
	}); slices.Contains(calls, "StopContainer") {
		t.Errorf("calls %q; want it left alone", calls)
	}
}

// A container with RestartContainer for memory restarts for another request too, which doesn't show in its actual
// resources.
func TestMemoryRequestIsResized(t *testing.T) {
	for policy, want := range map[v1.ResourceResizeRestartPolicy]bool{v1.RestartContainer: true, v1.NotRequired: false} {
		s := newSim(t)
		pod := func(request string) *v1.Pod {
			c := sized(sample("a"), "200Mi")
			c.Resources.Requests = v1.ResourceList{v1.ResourceMemory: resource.MustParse(request)}
			c.ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: policy}}
			return simPod(c)
		}
		if res := s.SyncPod(t.Context(), s.input(pod("100Mi"))); res.Err != nil {
			t.Fatal(res.Err)
		}
		for _, request := range []string{"150Mi", "50Mi"} {
			before := s.status(pod(request)).Latest("a").ID
			res := s.resizeTo(pod(request))
			if now := s.status(pod(request)).Latest("a").ID; (now != before) != want || res.Err != nil || res.Resizing {
				t.Errorf("%s, %s: %+v, and it restarted: %v", policy, request, res, now != before)
			}
			if calls := s.callsDuring(func() { s.resizeTo(pod(request)) }); slices.Contains(calls, "StopContainer") {
				t.Errorf("%s, %s, once more: calls %q", policy, request, calls)
			}
		}
	}
}
