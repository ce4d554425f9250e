package kubeletmetrics

import "github.com/prometheus/client_golang/prometheus"

// The pods of the node, and their way through the sync loop.
var (
	RunningPods       = Gauge{Name: "kubelet_running_pods", Help: "Pods with a running sandbox."}
	RunningContainers = Gauge{
		Name: "kubelet_running_containers", Help: "Containers in the runtime, by state.", Labels: []string{"container_state"},
	}
	DesiredPods = Gauge{
		Name: "kubelet_desired_pods", Help: "Pods that the sources want here. static is true for those that aren't the API server's.",
		Labels: []string{"static"},
	}
	ActivePods = Gauge{
		Name: "kubelet_active_pods", Help: "Desired pods that count when another pod is admitted.", Labels: []string{"static"},
	}
	MirrorPods  = Gauge{Name: "kubelet_mirror_pods", Help: "Static pods that need a mirror pod."}
	WorkingPods = Gauge{
		Name: "kubelet_working_pods", Help: "Pods with a worker, by the state of the worker, and by whether a source still has the pod.",
		Labels: []string{"lifecycle", "config", "static"},
	}
	ManagedEphemeralContainers = Gauge{
		Name: "kubelet_managed_ephemeral_containers", Help: "Ephemeral containers in the specs of desired pods.",
	}
	OrphanedRuntimePods = Counter{
		Name: "kubelet_orphaned_runtime_pods_total", Help: "Pods that were found in the runtime and that no source has: they were removed.",
	}
	RestartedPods = Counter{
		Name: "kubelet_restarted_pods_total", Help: "Pods that started again with the UID of one that had ended.", Labels: []string{"static"},
	}
	ContainersPerPod = Histogram{
		Name: "kubelet_containers_per_pod_count", Help: "Containers in the spec of each pod that starts.", Buckets: perPodBuckets,
	}
	PodWorkerDuration = Histogram{
		Name: "kubelet_pod_worker_duration_seconds", Help: "Duration of one step of a pod's worker: create, update, sync, kill or terminated.",
		Labels: []string{"operation_type"}, Buckets: prometheus.DefBuckets,
	}
	PodWorkerStartDuration = Histogram{
		Name: "kubelet_pod_worker_start_duration_seconds", Help: "Time from the arrival of a pod to its first sync.", Buckets: prometheus.DefBuckets,
	}
	PodStartDuration = Histogram{
		Name: "kubelet_pod_start_duration_seconds", Help: "Time from the arrival of a pod until its phase is Running.", Buckets: startBuckets,
	}
	PodStartSLIDuration = Histogram{
		Name:   "kubelet_pod_start_sli_duration_seconds",
		Help:   "Time from a pod's creation until the API server reports its start, less pulls and init containers. Pods with state are left out.",
		Labels: []string{}, Buckets: startBuckets,
	}
	PodStartTotalDuration = Histogram{
		Name: "kubelet_pod_start_total_duration_seconds", Help: "Time from a pod's creation until the API server reports its start.",
		Labels: []string{}, Buckets: startBuckets,
	}
	FirstNetworkPodStart = Gauge{
		Name: "kubelet_first_network_pod_start_sli_duration_seconds",
		Help: "The value of kubelet_pod_start_sli_duration_seconds for the first pod with a network of its own.",
	}
	PodStatusSyncDuration = Histogram{
		Name: "kubelet_pod_status_sync_duration_seconds", Help: "Time from a change of a pod's status until the API server has it.",
		Buckets: statusSyncBuckets,
	}
	AdmissionRejections = Counter{
		Name: "kubelet_admission_rejections_total", Help: "Pods that were rejected, by reason.", Labels: []string{"reason"},
	}
	Preemptions = Counter{
		Name: "kubelet_preemptions", Help: "Pods that were preempted for a critical pod, by the resource that was short.",
		Labels: []string{"preemption_signal"},
	}
	PodLevelResourcesAdmission = Counter{
		Name: "kubelet_pod_level_resources_admission_total", Help: "Admitted pods, by the level at which their resources are set.",
		Labels: []string{"config_mode", "qos_class"},
	}
)
