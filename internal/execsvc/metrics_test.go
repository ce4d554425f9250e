package execsvc

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/loop/worker"
	"github.com/podstream/podstream/internal/execsvc/pod/podtest"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	"github.com/podstream/podstream/internal/metrictest"
)

// wantMetrics checks the agent's metrics.
func (l *testAgent) wantMetrics(want map[string]float64) {
	l.n.t.Helper()
	metrictest.Want(l.n.t, l.registry, want)
}

// A static pod and one of the API server run, and the static one ends.
func TestMetricsOfPods(t *testing.T) {
	n := newNode(t)
	l := n.start()
	static, other := newPod("a", "web", "file", "exit", "3"), newPod("b", "db", "api")
	static.Spec.RestartPolicy = v1.RestartPolicyNever
	static.Spec.Containers[0].Resources.Requests = podtest.Amounts("1", "1Mi")
	l.deliver(ops(change(client.Add, true, static, other)))
	l.awaitRunning("b")
	l.await("a", "has failed", func(p podview.Pod) bool { return p.State == finished })
	l.wantMetrics(map[string]float64{
		"kubelet_desired_pods{static=}": 1, "kubelet_desired_pods{static=true}": 1,
		"kubelet_active_pods{static=}": 1, "kubelet_active_pods{static=true}": 0,
		"kubelet_running_pods": 1, "kubelet_running_containers{container_state=running}": 1,
		"kubelet_running_containers{container_state=exited}":                                           1,
		"kubelet_working_pods{lifecycle=sync,config=desired,static=}":                                  1,
		"kubelet_working_pods{lifecycle=terminated,config=desired,static=true}":                        1,
		"kubelet_started_pods_total":                                                                   2,
		"kubelet_started_containers_total{container_type=container}":                                   2,
		"kubelet_terminated_containers_total{exit_code=3,container_type=container}":                    1,
		"kubelet_pod_level_resources_admission_total{config_mode=container_level,qos_class=burstable}": 1,
		"kubelet_pod_level_resources_admission_total{config_mode=,qos_class=besteffort}":               1,
		"kubelet_containers_per_pod_count":                                                             2,
		"kubelet_pod_worker_duration_seconds{operation_type=create}":                                   2,
	})
	if got := metrictest.Value(t, l.registry, "kubelet_pod_start_duration_seconds"); got < 1 {
		t.Errorf("%v starts were measured; want that of the running pod", got)
	}
}

// Ephemeral containers are counted by the specs, and removed pods as orphans while they end.
func TestMetricsOfRemovedPods(t *testing.T) {
	n := newNode(t)
	l := n.start()
	pod := newPod("a", "web", "api")
	l.deliver(ops(change(client.Add, true, pod)))
	l.awaitRunning("a")
	debugged := pod.DeepCopy()
	debugged.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{
		Name: "debug", Image: pod.Spec.Containers[0].Image,
	}}}
	l.deliver(ops(change(client.Update, true, debugged)))
	eventually(t, "the ephemeral container was started", func() bool {
		return metrictest.Value(t, l.registry, "kubelet_started_containers_total", "container_type", "ephemeral_container") == 1
	})
	l.wantMetrics(map[string]float64{"kubelet_managed_ephemeral_containers": 1})
	stopping, release := n.Hold(t, "StopContainer", 1)
	l.deliver(ops(change(client.Remove, true, debugged)))
	stopping()
	l.wantMetrics(map[string]float64{
		"kubelet_working_pods{lifecycle=terminating,config=orphan,static=}": 1, "kubelet_managed_ephemeral_containers": 0, "kubelet_desired_pods": 0,
	})
	release()
	l.awaitGone("a")
}

// A pod that runs without a source, and a directory of one that is gone, are removed and counted.
func TestMetricsOfOrphans(t *testing.T) {
	n := newNode(t)
	n.leave(newPod("old", "web", "file"))
	directory := filepath.Join(n.podsDir, "gone")
	if err := os.MkdirAll(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	l := n.start()
	l.deliver(synced(client.Source{Name: "file", Ready: true}))
	eventually(t, "the directory is removed", func() bool { return !exists(t, directory) })
	l.awaitGone("old")
	l.housekeep()
	l.wantMetrics(map[string]float64{
		"kubelet_orphaned_runtime_pods_total": 1, "kubelet_orphan_pod_cleaned_volumes": 0, "kubelet_orphan_pod_cleaned_volumes_errors": 0,
	})
}

// The last sweep of directories is shown, and directories that can't be removed.
func TestMetricsOfSweeps(t *testing.T) {
	n := newNode(t)
	n.housekeeping = time.Hour // No other sweep comes between.
	l := n.start()
	l.deliver(synced(client.Source{Name: "file", Ready: true}))
	l.removeOrphanedDirectories([]types.UID{"gone", "lost"}, nil)
	l.wantMetrics(map[string]float64{"kubelet_orphan_pod_cleaned_volumes": 2})
	l.removeOrphanedDirectories(nil, nil)
	l.wantMetrics(map[string]float64{"kubelet_orphan_pod_cleaned_volumes": 0})
	_, failing := countWorking([]worker.Status{
		{Pod: &v1.Pod{}, State: worker.Terminating, Removed: true, Err: os.ErrPermission}, {Pod: &v1.Pod{}, State: worker.Terminating, Removed: true},
	})
	if failing != 1 {
		t.Errorf("%d sweeps fail; want 1", failing)
	}
}

// A rejected pod is counted once per reason, a preempted one by the resource.
func TestMetricsOfAdmission(t *testing.T) {
	n := newNode(t)
	n.allocatable = podtest.Amounts("2", "1Gi")
	l := n.start()
	l.deliver(at(1, ops(change(client.Add, true, sized("a", 1, "2", "256Mi")))))
	l.awaitRunning("a")
	l.deliver(at(2, ops(change(client.Add, true, sized("b", 1, "2", "256Mi")))))
	l.await("b", "is rejected", func(p podview.Pod) bool { return p.Status != nil && p.Status.Reason == "OutOfcpu" })
	l.wantMetrics(map[string]float64{"kubelet_admission_rejections_total{reason=OutOfcpu}": 1, "kubelet_preemptions": 0})
	l.deliver(at(3, ops(change(client.Add, true, static(sized("c", 0, "2", "256Mi"))))))
	l.awaitRunning("c")
	l.wantMetrics(map[string]float64{"kubelet_preemptions{preemption_signal=cpu}": 1})
}

// Resizes: one that is deferred and then accepted, one that exceeds the node, and one that is reverted.
func TestMetricsOfResizes(t *testing.T) {
	n := newNode(t)
	n.allocatable = podtest.Amounts("4", "1Gi")
	l := n.start()
	first, other := sized("a", 1, "1", "256Mi"), sized("b", 1, "2", "256Mi")
	first.Spec.Priority = ptr.To[int32](5)
	l.deliver(at(1, ops(change(client.Add, true, first, other))))
	l.awaitSize(first)
	l.awaitRunning("b")
	resize := func(cursor int, generation int64, cpu string) *v1.Pod {
		pod := sized("a", generation, cpu, "256Mi")
		pod.Spec.Priority = first.Spec.Priority
		l.deliver(at(uint64(cursor), ops(change(client.Update, true, pod))))
		return pod
	}
	resize(2, 2, "3")
	l.awaitCondition("a", v1.PodResizePending, v1.PodReasonDeferred, 2)
	l.wantMetrics(map[string]float64{
		"kubelet_pod_pending_resizes{reason=deferred,priority_bucket=medium}": 1, "kubelet_pod_in_progress_resizes": 0,
		"kubelet_container_requested_resizes_total{resource=cpu,requirement=requests,operation=increase}": 1,
	})
	back := resize(3, 3, "1")
	l.awaitSize(back)
	l.wantMetrics(map[string]float64{
		"kubelet_pod_deferred_resize_duration_seconds{resolution=reverted,priority_bucket=medium}": 1, "kubelet_pod_pending_resizes": 0,
		"kubelet_container_requested_resizes_total{resource=cpu,requirement=requests,operation=decrease}": 1,
	})
	large := resize(4, 4, "3")
	l.awaitCondition("a", v1.PodResizePending, v1.PodReasonDeferred, 4)
	l.deliver(at(5, ops(change(client.Remove, true, other))))
	l.awaitSize(large)
	l.wantMetrics(map[string]float64{
		"kubelet_pod_deferred_resize_duration_seconds{resolution=accepted}":       1,
		"kubelet_pod_deferred_accepted_resizes_total{retry_trigger=pods_removed}": 1,
		"kubelet_pod_resize_duration_milliseconds{success=true}":                  1,
	})
	resize(6, 5, "40")
	l.awaitCondition("a", v1.PodResizePending, v1.PodReasonDeferred, 5)
	l.wantMetrics(map[string]float64{"kubelet_pod_infeasible_resizes_total": 0, "kubelet_pod_pending_resizes{reason=deferred}": 1})
}

// A deferred resize of a removed pod ends with it. Resources that appear and disappear are resizes too.
func TestResizeMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newMetrics(registry)
	bare, whole := newPod("a", "web", "api"), sized("a", 2, "1", "1Mi")
	bare.Generation = 1
	bare.Spec.Containers[0].Name = whole.Spec.Containers[0].Name
	m.countRequested(bare, whole)
	m.countRequested(whole, bare)
	m.countRequested(nil, whole)
	unsized := bare.DeepCopy()
	unsized.Generation = 0
	m.countRequested(whole, unsized)
	noted := &v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodResizePending, Reason: v1.PodReasonDeferred}}}
	m.dropResize(time.Unix(10, 0), whole, noted)
	m.dropResize(time.Unix(10, 0), whole, &v1.PodStatus{})
	swap := &v1.PodStatus{Conditions: []v1.PodCondition{{
		Type: v1.PodResizePending, Reason: v1.PodReasonInfeasible, Message: "In-place resize of containers with swap is not supported.",
	}}}
	m.countResize(time.Unix(10, 0), whole, &v1.PodStatus{}, swap)
	m.countResize(time.Unix(10, 0), whole, swap, swap)
	metrictest.Want(t, registry, map[string]float64{
		"kubelet_container_requested_resizes_total{resource=memory,requirement=requests,operation=add}": 1,
		"kubelet_container_requested_resizes_total{resource=cpu,requirement=requests,operation=remove}": 1,
		"kubelet_pod_deferred_resize_duration_seconds{resolution=terminated,priority_bucket=normal}":    1,
		"kubelet_pod_infeasible_resizes_total{reason_detail=swap_limitation}":                           1,
	})
}

// The runtime's words become labels in bounded number, and exit codes only if they are some.
func TestLabelsOfEndedContainers(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newMetrics(registry)
	for i := range int32(1000) {
		m.countEnded("container", nil, []v1.ContainerStatus{{Name: "a", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			ExitCode: i, Reason: string('A' + i),
		}}}})
	}
	if got := metrictest.Count(t, registry, "kubelet_terminated_containers_total"); got > 257*(maxReasons+1) || got > 300 {
		t.Errorf("%d series; want one for each exit code, and few others", got)
	}
	metrictest.Want(t, registry, map[string]float64{
		"kubelet_terminated_containers_total": 1000, "kubelet_terminated_containers_total{exit_code=other}": 1000 - 256,
	})
}
