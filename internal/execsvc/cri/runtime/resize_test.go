package runtime

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/cri/image"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// sized gives the container a limit of memory, which is also what it asks for.
func sized(c v1.Container, memory string) v1.Container {
	c.Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse(memory)}
	c.Resources.Requests = c.Resources.Limits
	return c
}

// resizeTo does a round in which the pod is resized.
func (s *sim) resizeTo(pod *v1.Pod) SyncResult {
	s.t.Helper()
	in := s.input(pod)
	in.Resizing = true
	return s.SyncPod(s.t.Context(), in)
}

// wantLimits checks the memory that the containers may use, in MiB, as it is read.
func (s *sim) wantLimits(pod *v1.Pod, want map[string]int64) {
	s.t.Helper()
	has := s.status(pod)
	for name, limit := range want {
		if r := has.Latest(name).Resources; r == nil || r.MemoryLimit != limit<<20 {
			s.t.Errorf("container %s has %+v; want %d MiB", name, r, limit)
		}
	}
}

// The containers that get less come first; if that fails the others wait for them.
func TestResizeOrder(t *testing.T) {
	s := newSim(t)
	s.mustSync(simPod(sized(sample("a"), "100Mi"), sized(sample("b"), "100Mi"), sized(sample("c"), "100Mi")))
	pod := simPod(sized(sample("a"), "200Mi"), sized(sample("b"), "50Mi"), sized(sample("c"), "100Mi"))
	s.mustSync(pod)
	s.wantLimits(pod, map[string]int64{"a": 100, "b": 100, "c": 100})
	s.setFault(func(method string) error {
		if method == "UpdateContainerResources" {
			return errors.New("busy")
		}
		return nil
	})
	res := s.resizeTo(pod)
	if res.Resize == nil || !res.Resizing || !errors.Is(res.Err, res.Resize) || !strings.Contains(res.Resize.Error(), "container b") {
		t.Errorf("%+v; want the error of container b", res)
	}
	s.wantLimits(pod, map[string]int64{"a": 100, "b": 100, "c": 100})
	s.setFault(nil)
	if calls := s.callsDuring(func() { res = s.resizeTo(pod) }); !slices.Equal(calls,
		[]string{"ContainerStats", "UpdateContainerResources", "UpdateContainerResources"}) {
		t.Errorf("calls %q", calls)
	}
	if res.Err != nil || res.Resizing || !res.Acted {
		t.Errorf("%+v; want it done", res)
	}
	s.wantLimits(pod, map[string]int64{"a": 200, "b": 50, "c": 100})
	if calls := s.callsDuring(func() { res = s.resizeTo(pod) }); len(calls) > 0 || res.Acted || res.Resizing {
		t.Errorf("%+v after %q; want nothing more to do", res, calls)
	}
}

// usage is a runtime whose containers use that much memory.
type usage struct {
	internalapi.RuntimeService
	bytes uint64
}

func (u usage) ContainerStats(context.Context, string) (*runtimeapi.ContainerStats, error) {
	return &runtimeapi.ContainerStats{Memory: &runtimeapi.MemoryUsage{UsageBytes: &runtimeapi.UInt64Value{Value: u.bytes}}}, nil
}

// No container gets less memory than it uses.
func TestResizeBelowUsage(t *testing.T) {
	s := newSim(t)
	s.with(func(c *Config) { c.Runtime = usage{s.CRI, 60 << 20} })
	s.mustSync(simPod(sized(sample("a"), "100Mi")))
	pod := simPod(sized(sample("a"), "60Mi"))
	res := s.resizeTo(pod)
	const want = `cannot decrease memory limits: attempting to set container "a" memory limit (62914560) below current usage (62914560)`
	if res.Resize == nil || res.Resize.Error() != want || !res.Resizing {
		t.Errorf("%+v; want %s", res, want)
	}
	s.wantLimits(pod, map[string]int64{"a": 100})
	pod = simPod(sized(sample("a"), "61Mi"))
	if res := s.resizeTo(pod); res.Err != nil || res.Resizing {
		t.Errorf("%+v; want it done", res)
	}
	s.wantLimits(pod, map[string]int64{"a": 61})
}

// A container that must restart goes on while its image is being pulled, and so does the resize.
func TestResizeWaitsForImage(t *testing.T) {
	s := newSim(t)
	s.mustSync(simPod(sized(sample("a"), "100Mi")))
	a := sized(sample("a"), "200Mi")
	a.ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}}
	pod := simPod(a)
	s.images.answer("a", &image.Wait{Reason: ContainerCreating, Pulling: true}, nil)
	if res := s.resizeTo(pod); res.Err != nil || !res.Resizing {
		t.Errorf("%+v; want it to go on", res)
	}
	s.wantContainer(pod, "a", observed.Running, 0)
	s.images.answer("a", nil, nil)
	if res := s.resizeTo(pod); res.Err != nil || res.Resizing {
		t.Errorf("%+v; want it done", res)
	}
	s.wantContainer(pod, "a", observed.Running, 1)
	s.wantLimits(pod, map[string]int64{"a": 200})
	if got, want := s.events(), "Killing a: Container a resize requires restart, will be restarted"; !slices.Contains(got, want) {
		t.Errorf("events %q; want %q", got, want)
	}
}

// A reading during a change may be of the state before: it is repeated.
func TestReadingDuringResize(t *testing.T) {
	s := newSim(t)
	pod := simPod(sized(sample("a"), "100Mi"))
	s.mustSync(pod)
	s.Runtime = s.restarted()
	s.setFault(func(method string) error {
		if method == "ContainerStatus" {
			s.dropDetails("a")
		}
		return nil
	})
	s.status(pod)
	s.setFault(nil)
	before := s.Server.Calls()["ContainerStatus"]
	s.status(pod)
	s.status(pod)
	if n := s.Server.Calls()["ContainerStatus"] - before; n != 1 {
		t.Errorf("it was read %d times; want once more, and remembered", n)
	}
}
