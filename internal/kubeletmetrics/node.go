package kubeletmetrics

import "github.com/prometheus/client_golang/prometheus"

// The machine and its Node.
var (
	NodeName = Gauge{
		Name: "kubelet_node_name", Help: "The node's name. Always 1.", Labels: []string{"node"},
	}
	CgroupVersion = Gauge{
		Name: "kubelet_cgroup_version", Help: "The machine's version of cgroups: 1 or 2.",
	}
	CgroupManagerDuration = Histogram{
		Name: "kubelet_cgroup_manager_duration_seconds", Help: "Duration of operations on pods' cgroups: create, update or destroy.",
		Labels: []string{"operation_type"}, Buckets: prometheus.DefBuckets,
	}
	MemoryQoSMin = Gauge{
		Name: "kubelet_memory_qos_node_memory_min_bytes", Help: "The sum of memory.min of guaranteed pods.",
	}
	MemoryQoSLow = Gauge{
		Name: "kubelet_memory_qos_node_memory_low_bytes", Help: "The sum of memory.low of burstable pods.",
	}
	Evictions = Counter{
		Name: "kubelet_evictions", Help: "Evicted pods, by signal.", Labels: []string{"eviction_signal"},
	}
	EvictionStatsAge = Histogram{
		Name: "kubelet_eviction_stats_age_seconds", Help: "Age of the observation for which a pod is evicted.",
		Labels: []string{"eviction_signal"}, Buckets: prometheus.DefBuckets,
	}
	OrphanPodCleanedVolumes = Gauge{
		Name: "kubelet_orphan_pod_cleaned_volumes", Help: "Pods whose directories the last sweep removed because no source has the pod.",
	}
	OrphanPodCleanedVolumesErrors = Gauge{
		Name: "kubelet_orphan_pod_cleaned_volumes_errors", Help: "Pods whose directories the last sweep could not remove.",
	}
	GracefulShutdownStart = Gauge{
		Name: "kubelet_graceful_shutdown_start_time_seconds", Help: "When the last graceful shutdown of the node began, in Unix time.",
	}
	GracefulShutdownEnd = Gauge{
		Name: "kubelet_graceful_shutdown_end_time_seconds", Help: "When the last graceful shutdown of the node ended, in Unix time.",
	}
	NodeStartupPreKubelet = Gauge{
		Name: "kubelet_node_startup_pre_kubelet_duration_seconds", Help: "Time from the machine's boot to the start of podexecd.",
	}
	NodeStartupPreRegistration = Gauge{
		Name: "kubelet_node_startup_pre_registration_duration_seconds", Help: "Time from the start of podexecd to the first attempt to register.",
	}
	NodeStartupRegistration = Gauge{
		Name: "kubelet_node_startup_registration_duration_seconds", Help: "Time from the first attempt to register to the new Node.",
	}
	NodeStartupPostRegistration = Gauge{
		Name: "kubelet_node_startup_post_registration_duration_seconds", Help: "Time from the new Node until it is ready.",
	}
	NodeStartup = Gauge{
		Name: "kubelet_node_startup_duration_seconds", Help: "Time from the machine's boot until the new Node is ready.",
	}
)

// In-place resizes.
var (
	ContainerRequestedResizes = Counter{
		Name: "kubelet_container_requested_resizes_total", Help: "Requested resizes of containers, by resource, by requests or limits, and by direction.",
		Labels: []string{"resource", "requirement", "operation"},
	}
	PodResizeDuration = Histogram{
		Name: "kubelet_pod_resize_duration_milliseconds", Help: "How long it takes to apply a resize.",
		Labels: []string{"success"}, Buckets: resizeBuckets,
	}
	PodPendingResizes = Gauge{
		Name: "kubelet_pod_pending_resizes", Help: "Pods whose resize waits, by reason and priority.", Labels: []string{"reason", "priority_bucket"},
	}
	PodInProgressResizes = Gauge{
		Name: "kubelet_pod_in_progress_resizes", Help: "Pods whose resize is under way.",
	}
	PodInfeasibleResizes = Counter{
		Name: "kubelet_pod_infeasible_resizes_total", Help: "Resizes that this node can't do, by reason.", Labels: []string{"reason_detail"},
	}
	PodDeferredAcceptedResizes = Counter{
		Name: "kubelet_pod_deferred_accepted_resizes_total", Help: "Resizes that were accepted after they had been deferred.",
		Labels: []string{"retry_trigger"},
	}
	PodDeferredResizeDuration = Histogram{
		Name: "kubelet_pod_deferred_resize_duration_seconds", Help: "How long resizes were deferred, by their resolution and the pod's priority.",
		Labels: []string{"resolution", "priority_bucket"}, Buckets: deferredBuckets,
	}
)

// The Pods API.
var (
	PodRequests = Counter{
		Name: "kubelet_pod_requests_total", Help: "Requests of the Pods API.", Labels: []string{"server_api_version", "status_code"},
	}
	PodRequestsList = Counter{
		Name: "kubelet_pod_requests_list_total", Help: "Requests of ListPods.", Labels: []string{"server_api_version", "status_code"},
	}
	PodRequestsGet = Counter{
		Name: "kubelet_pod_requests_get_total", Help: "Requests of GetPod.", Labels: []string{"server_api_version", "status_code"},
	}
	PodRequestsWatch = Counter{
		Name: "kubelet_pod_requests_watch_total", Help: "Streams of WatchPods that ended.", Labels: []string{"server_api_version", "status_code"},
	}
	PodWatchEventsDropped = Counter{
		Name: "kubelet_pod_watch_events_dropped_total", Help: "Events that a stream of WatchPods left out. Always 0: none are.",
	}
)
