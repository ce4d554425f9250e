package runtime

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/cri/image"
	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/metrictest"
)

// withMetrics creates the Runtime again with a registry.
func (s *sim) withMetrics() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	s.with(func(c *Config) { c.Metrics = registry })
	return registry
}

func TestStartMetrics(t *testing.T) {
	s := newSim(t)
	registry := s.withMetrics()
	pod := simPod(sample("a"), sample("b"))
	s.setFault(failing("RunPodSandbox", errDown))
	s.sync(pod)
	s.setFault(nil)
	s.images.answer("b", &image.Wait{Reason: image.ErrImagePull}, errors.New("no such image"))
	s.sync(pod)
	s.images.answer("b", nil, nil)
	s.setFault(failing("StartContainer", errDown))
	s.sync(pod)
	metrictest.Want(t, registry, map[string]float64{
		"kubelet_started_pods_total": 2, "kubelet_started_pods_errors_total": 1,
		"kubelet_started_user_namespaced_pods_total": 0, "kubelet_started_user_namespaced_pods_errors_total": 0,
		"kubelet_started_containers_total{container_type=container}":      3,
		"kubelet_started_containers_errors_total{code=ErrImagePull}":      1,
		"kubelet_started_containers_errors_total{code=RunContainerError}": 1,
	})
}

// A pod with a user namespace is counted when its sandbox is created, and its failures too.
func TestUserNamespaceMetrics(t *testing.T) {
	s := newSim(t)
	registry := s.withMetrics()
	pod := simPod(sample("a"))
	pod.Spec.HostUsers = ptr.To(false)
	if res := s.sync(pod); res.Err == nil {
		t.Error("no error without a user namespace")
	}
	metrictest.Want(t, registry, map[string]float64{
		"kubelet_started_user_namespaced_pods_total": 1, "kubelet_started_user_namespaced_pods_errors_total": 1,
	})
}

// Init containers have a type of their own, and a failed hook is an error of its container.
func TestContainerTypes(t *testing.T) {
	s := newSim(t)
	registry := s.withMetrics()
	pod := simPod(withPostStart(sample("a")))
	pod.Spec.InitContainers = []v1.Container{sidecar("i")}
	s.hooks.run = func(context.Context, string) error { return errors.New("no answer") }
	s.sync(pod)
	s.sync(pod)
	metrictest.Want(t, registry, map[string]float64{
		"kubelet_started_containers_total{container_type=init_container}":  1,
		"kubelet_started_containers_errors_total{code=PostStartHookError}": 1,
	})
}

func TestImageVolumeMetrics(t *testing.T) {
	s := newSim(t)
	registry := s.withMetrics()
	pod := simPod(withImage(sample("a"), "one", "two"))
	pod.Spec.Volumes = []v1.Volume{imageVolume("one", ""), imageVolume("two", "")}
	in := s.input(pod)
	in.Setup = plainSetup{mounts: []criconfig.Mount{
		{ContainerPath: "/one", ReadOnly: true, Image: &criconfig.ImageMount{Given: "localhost/one:1"}},
		{ContainerPath: "/two", ReadOnly: true, Image: &criconfig.ImageMount{Given: "localhost/two:1"}},
	}}
	s.setFault(failing("CreateContainer", errors.New("ImageVolumeMountFailed: no")))
	s.SyncPod(t.Context(), in)
	s.setFault(nil)
	in.Has = s.status(pod)
	s.SyncPod(t.Context(), in)
	metrictest.Want(t, registry, map[string]float64{
		"kubelet_image_volume_requested_total": 4, "kubelet_image_volume_mounted_succeed_total": 2, "kubelet_image_volume_mounted_errors_total": 2,
	})
}

func TestResizeMetrics(t *testing.T) {
	s := newSim(t)
	registry := s.withMetrics()
	s.mustSync(simPod(sized(sample("a"), "100Mi")))
	pod := simPod(sized(sample("a"), "200Mi"))
	s.setFault(failing("UpdateContainerResources", errDown))
	s.resizeTo(pod)
	s.setFault(nil)
	s.resizeTo(pod)
	s.resizeTo(pod)
	metrictest.Want(t, registry, map[string]float64{
		"kubelet_pod_resize_duration_milliseconds{success=false}": 1, "kubelet_pod_resize_duration_milliseconds{success=true}": 1,
	})
}

// The streams of events are counted when they open and when they end, and the age of each event.
func TestEventMetrics(t *testing.T) {
	registry, cri := prometheus.NewRegistry(), newEventRuntime(false)
	w := watch(t, New(Config{Runtime: cri, Agent: "me", Metrics: registry}))
	w.wantUnnamed(1)
	sent := event("a", "me")
	sent.CreatedAt = time.Now().Add(-time.Minute).UnixNano()
	cri.events <- sent
	w.want("a")
	cri.ends <- errDown
	if err := w.end(); !errors.Is(err, errDown) {
		t.Errorf("Watch: %v", err)
	}
	metrictest.Want(t, registry, map[string]float64{
		"kubelet_evented_pleg_connection_success_count": 1, "kubelet_evented_pleg_connection_error_count": 1,
		"kubelet_evented_pleg_connection_latency_seconds": 1,
	})
	if age := metrictest.Sum(t, registry, "kubelet_evented_pleg_connection_latency_seconds"); age < 60 || age > 120 {
		t.Errorf("the event was %v s old; want a minute", age)
	}
}
