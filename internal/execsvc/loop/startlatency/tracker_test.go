package startlatency

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/metrictest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var zero = time.Unix(1_000_000, 0)

func at(seconds int) metav1.Time {
	return metav1.NewTime(zero.Add(time.Duration(seconds) * time.Second))
}

// apiPod is a pod of the API server, created at zero.
func apiPod(change func(*v1.Pod)) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			UID: "a", Name: "a", Namespace: "default", CreationTimestamp: at(0), Annotations: map[string]string{podmeta.SourceAnnotation: "api"},
		},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main"}}},
	}
	if change != nil {
		change(pod)
	}
	return pod
}

// runs sets the pod's container running.
func runs(pod *v1.Pod) *v1.Pod {
	pod = pod.DeepCopy()
	start := at(10)
	pod.Status.StartTime = &start
	pod.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "main", State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: at(15)}}}}
	return pod
}

// A pod is seen at 2 s and its API copy runs at 20 s. Two pulls that overlap took 5 s, and an init container 3 s.
func TestStart(t *testing.T) {
	stored := func(pod *v1.Pod) {
		pod.Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{}}}}
	}
	for name, c := range map[string]struct {
		pod              *v1.Pod
		first            func(*v1.Pod)
		totals, slis     float64
		total, sli, gate float64
	}{
		"ordinary":     {apiPod(nil), nil, 1, 1, 20, 12, 12},
		"host network": {apiPod(func(p *v1.Pod) { p.Spec.HostNetwork = true }), nil, 1, 1, 20, 12, 0},
		"with state":   {apiPod(stored), nil, 1, 0, 20, 0, 0},
		"static":       {apiPod(func(p *v1.Pod) { p.Annotations[podmeta.SourceAnnotation] = "file" }), nil, 0, 0, 0, 0, 0},
		"mirror":       {apiPod(func(p *v1.Pod) { p.Annotations[v1.MirrorPodAnnotationKey] = "x" }), nil, 0, 0, 0, 0, 0},
		"unschedulable": {apiPod(nil), func(p *v1.Pod) {
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse}}
		}, 0, 0, 0, 0, 0},
		"started before": {apiPod(nil), func(p *v1.Pod) { start := at(1); p.Status.StartTime = &start }, 0, 0, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			registry, clock := prometheus.NewRegistry(), testingclock.NewFakeClock(at(2).Time)
			tracker := New(Config{Metrics: registry, Clock: clock})
			first := c.pod.DeepCopy()
			if c.first != nil {
				c.first(first)
			}
			tracker.Observe(first)
			tracker.Pulled("a", at(3).Time, at(6).Time)
			tracker.Pulled("a", at(5).Time, at(8).Time)
			tracker.Pulled("other", at(3).Time, at(6).Time)
			clock.SetTime(at(20).Time)
			now := runs(c.pod)
			now.Status.InitContainerStatuses = []v1.ContainerStatus{{State: v1.ContainerState{
				Terminated: &v1.ContainerStateTerminated{StartedAt: at(10), FinishedAt: at(13)},
			}}}
			tracker.Observe(now)
			clock.SetTime(at(30).Time)
			tracker.Observe(now)
			metrictest.Want(t, registry, map[string]float64{
				"kubelet_pod_start_total_duration_seconds": c.totals, "kubelet_pod_start_sli_duration_seconds": c.slis,
				"kubelet_first_network_pod_start_sli_duration_seconds": c.gate,
			})
			if total, sli := metrictest.Sum(t, registry, "kubelet_pod_start_total_duration_seconds"),
				metrictest.Sum(t, registry, "kubelet_pod_start_sli_duration_seconds"); total != c.total || sli != c.sli {
				t.Errorf("the start took %v s, and %v s by the SLI; want %v and %v", total, sli, c.total, c.sli)
			}
		})
	}
}

// What is kept is bounded: by pod, and by the pods that are desired.
func TestBounds(t *testing.T) {
	tracker := New(Config{})
	tracker.Observe(apiPod(nil))
	for range 3 * maxPulls {
		tracker.Pulled("a", zero, zero)
	}
	if got := len(tracker.pods["a"].pulls); got != maxPulls {
		t.Errorf("%d pulls are kept; want %d", got, maxPulls)
	}
	tracker.Drop(types.UID("a"))
	if len(tracker.pods) != 0 {
		t.Error("a removed pod is kept")
	}
	var none *Tracker
	none.Observe(apiPod(nil))
	none.Pulled("a", zero, zero)
	none.Drop("a")
}
